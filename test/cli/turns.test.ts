import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { faults, limits } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { Agents, inAnHour } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { writeResource } from '../support/catalog.ts';
import { png } from '../support/images.ts';
import { startServer } from '../support/server.ts';
import { resultOf, TestUser, userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer();

let count = 0;
const fresh = (): string => {
  count += 1;
  return `agent-${count}`;
};

async function spawned(description: string, ...tasks: string[]): Promise<string> {
  const name = fresh();
  await ada.agents.spawn(name, { description, tasks: tasks.map((subject) => ({ subject })) });
  return name;
}

/** Spawns an agent and waits until it needs attention. */
async function idle(description: string, ...tasks: string[]): Promise<string> {
  const name = await spawned(description, ...tasks);
  await ada.agents.wait(name);
  return name;
}

const busy = (): Promise<string> => ada.busy(fresh());

describe('wait', () => {
  test.each([
    ['finished', '!finish All done.', [], 0, 'finished: All done.'],
    ['is idle', '!say Hello.', [], 0, 'idle: Hello.'],
    ['failed', '!fail No way.', [], 10, 'failed: No way.'],
    ['needs input', '!ask Which one?', [], 12, 'needs input: Which one?'],
    [
      ...(['is blocked', '!sleep soon', [], 15] as const),
      `blocked: !sleep needs SECONDS, at most 2000000. ${faults.INVALID_DIRECTIVE.fix}`,
    ],
    ['has unfinished tasks', '!say Enough.', ['More'], 13, 'unfinished tasks: Enough.'],
  ] as const)('exits with the code of an agent that %s', async (_, text, tasks, code, shown) => {
    const name = await spawned(text, ...tasks);
    expect(await ada.muster(['wait', name])).toEqual({ code, out: `${name} ${shown}\n`, err: '' });
  });

  test('exits with the codes of an interrupted and of a killed agent', async () => {
    const name = await busy();
    const first = ada.runProcess(['wait', name]);
    expect(await ada.prints(['stop', name])).toBe(`stopping run 1 of ${name}\n`);
    expect(await first).toMatchObject({ code: 14, out: expect.stringContaining('interrupted') });
    await ada.agents.queue(name, '!sleep 600');
    const second = ada.runProcess(['wait', name]);
    expect(await ada.prints(['kill', name, '--yes'])).toBe(`ended ${name}\n`);
    expect(await second).toMatchObject({ code: 11, out: `${name} killed\n` });
  });

  test('says meanwhile which pool has no runner, and how to start one', async () => {
    await writeResource(ada.api, 'pool', 'gpu', {});
    await writeResource(ada.api, 'workspace', 'gpu-work', { pool: 'gpu' });
    const name = fresh();
    await new Agents(ada.api, 'gpu-work').spawn(name, { description: '!say Hi.' });
    const waited = await ada.muster(['wait', name, '--timeout', '4s']);
    expect(waited.code).toBe(124);
    expect(waited.err).toMatch(
      /waiting for a runner: No runner of the pool "gpu" can run .*muster runner --key KEY --pool gpu/,
    );
  });

  test('sends a message into the running turn and waits for its answer, and messages with images', async () => {
    const name = await spawned('!sleep 2');
    await until(
      'it works',
      () => ada.agents.phase(name),
      (phase) => phase === 'RUNNING/WORKING',
    );
    const sent = ada.data<{ response: string }>(['send', name, '!say Steered.', '--steer', '--wait']);
    expect(await sent).toMatchObject({ response: 'Steered.', runCount: '1' });
    const folder = mkdtempSync(join(tmpdir(), 'muster-images-'));
    const [image, text, large] = [
      join(folder, 'shot.png'),
      join(folder, 'text.png'),
      join(folder, 'large.png'),
    ];
    writeFileSync(image, png());
    writeFileSync(text, 'not an image');
    writeFileSync(large, Buffer.concat([png(), Buffer.alloc(limits.attachmentBytes)]));
    const withImage = await ada.data<{ response: string }>(['send', name, '--image', image, '--wait']);
    expect(withImage.response).toContain('Rehearsed.');
    const [delivered] = (await ada.agents.timeline(name, 'FOLLOW_UP_DELIVERED')).slice(-1);
    expect(delivered?.data.attachmentIds).toHaveLength(1);
    expect(await ada.prints(['logs', name])).toMatch(/^ *\[image\]$/m);
    await ada.muster(['send', name, 'Look again.', '--image', image, '--in', '1h']);
    expect(await ada.prints(['queue', name])).toContain('Look again. [image]');
    expect(await ada.muster(['send', name, 'x', '--image', text])).toMatchObject({
      code: 2,
      err: expect.stringContaining('expected a PNG, JPEG, WebP or GIF image'),
    });
    expect(await ada.muster(['send', name, 'x', '--image', image, '--image', large])).toMatchObject({
      code: 2,
      err: expect.stringContaining('large.png: expected at most 5242880 bytes'),
    });
    rmSync(folder, { recursive: true });
    expect(await ada.muster(['send', name, 'x', '--steer', '--preempt'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('steer'),
    });
  });

  test('waits for the first of several agents; with --all for each, with the first exit code that is not 0', async () => {
    const slow = await busy();
    const quick = await spawned('!say Quick.');
    const failing = await spawned('!fail Sorry.');
    expect(await ada.muster(['wait', slow, quick])).toMatchObject({
      code: 0,
      out: `${quick} idle: Quick.\n`,
    });
    const { code, out } = await ada.muster(['wait', '--all', quick, failing]);
    expect(code).toBe(10);
    expect(out.trim().split('\n').sort()).toEqual(
      [`${quick} idle: Quick.`, `${failing} failed: Sorry.`].sort(),
    );
    const asData = await ada.muster(['wait', '--all', failing, quick, '-o', 'json']);
    expect(asData.code).toBe(10);
    expect(JSON.parse(asData.out)).toMatchObject([{ error: { message: 'Sorry.' } }, { response: 'Quick.' }]);
  });

  test('waits for a message, a turn, or the agents below an agent, at most for --timeout', async () => {
    const name = await idle('!say First.');
    const { response } = await ada.data<{ response: string }>(['send', name, '!say Second.', '--wait']);
    expect(response).toBe('Second.');
    await ada.agents.queue(name, { description: '!sleep 600', followUpId: 'long' });
    expect(await ada.muster(['wait', name, '--run', '2'])).toMatchObject({ code: 0 });
    const { code, err } = await ada.muster(['wait', name, '--message', 'long', '--timeout', '1s']);
    expect({ code, err }).toEqual({
      code: 124,
      err: `muster: timed out after 1s; still waiting for ${name}\n`,
    });
    expect(await ada.muster(['wait', name, '--message', 'never'])).toMatchObject({ code: 3 });
    const parent = await spawned('!spawn child !say Hello from below.');
    for (const more of [[], ['--all']])
      expect(await ada.muster(['wait', '--below', parent, ...more])).toMatchObject({
        code: 0,
        out: expect.stringContaining('Hello from below.'),
      });
    await ada.agents.spawn(`${parent}/broken`, { description: '!fail Sorry.' });
    const all = await ada.muster(['wait', '--below', parent, '--all', '-o', 'json']);
    expect(all.code).toBe(10);
    expect(JSON.parse(all.out)).toMatchObject([
      { response: 'Hello from below.' },
      { phase: 'PHASE_FAILED', timedOut: false },
    ]);
  });

  test.each([
    [[]],
    [['a', '--below', 'b']],
    [['a', 'b', '--run', '1']],
    [['a', '--run', '1', '--message', 'm']],
    [['a', '--timeout', '30d']],
  ])('refuses %j', async (args) => {
    expect(await ada.muster(['wait', ...args])).toMatchObject({ code: 2 });
  });

  test('runs --run prints the whole response of a turn', async () => {
    const name = await idle(`!say ${'long '.repeat(2000)}end`);
    expect(await ada.prints(['runs', name, '--run', '1'])).toMatch(/^(long ){2000}end\n$/);
  });

  test('survives a restart of the service', async () => {
    const own = await startServer({ runner: false });
    const bob = new TestUser(own);
    await bob.agents.spawn('waited-for', { description: '!sleep 600' });
    const waiting = bob.start(['wait', 'waited-for']);
    const answer = resultOf(waiting);
    const port = new URL(own.url).port;
    const metrics = async (): Promise<string> => (await fetch(`${own.url}/metrics`)).text();
    await until('the open wait', metrics, (text) =>
      /^muster_long_replies_open\{kind="wait"\} [1-9]/m.test(text),
    );
    await own.end('SIGTERM');
    const again = await startServer({
      databaseUrl: own.databaseUrl,
      env: { ...own.env, MUSTER_PORT: port },
    });
    await bob.agents.kill('waited-for');
    expect(await answer).toMatchObject({ code: 11 });
    bob.remove();
    await again.close();
    await own.close();
  });
});

describe('retry and reopen', () => {
  test('a message to an agent that has ended is a conflict, and the error says how to reopen it', async () => {
    const name = await spawned('!finish Done.');
    await ada.agents.wait(name);
    const ended = await ada.muster(['send', name, 'More.']);
    expect(ended).toMatchObject({ code: 5, out: '' });
    expect(ended.err).toContain(`it has ended (PHASE_COMPLETED); reopen it first: muster reopen ${name}`);
    await ada.prints(['reopen', name]);
    await ada.prints(['send', name, '!say More.', '--wait']);
    await ada.prints(['kill', name, '--yes']);
    const killed = await ada.muster(['send', name, 'More.']);
    expect(killed).toMatchObject({ code: 5, err: expect.stringContaining("can't be reopened") });
  });

  test('retry runs the messages of a blocked agent again, and is refused for an idle one', async () => {
    const name = await idle('!sleep soon');
    expect(await ada.prints(['status', name])).toContain(faults.INVALID_DIRECTIVE.fix);
    // A retry skips the directive.
    expect(await ada.muster(['retry', name, '--wait'])).toMatchObject({ code: 0 });
    expect(await ada.prints(['runs', name])).toMatch(/^ *2 /m);
    const other = await idle('!say Hello.');
    expect(await ada.muster(['retry', other])).toMatchObject({ code: 5, out: '' });
  });

  test('reopen reopens an agent that finished, and refuses one that was killed', async () => {
    const name = await idle('!finish Done.');
    expect(await ada.prints(['reopen', name])).toBe(
      `reopened ${name}; send it work with muster send ${name} "…"\n`,
    );
    expect(await ada.muster(['send', name, '!say Again.', '--wait'])).toMatchObject({
      code: 0,
      out: `${name} idle: Again.\n`,
    });
    await ada.agents.kill(name);
    expect(await ada.muster(['reopen', name])).toMatchObject({ code: 5, out: '' });
  });
});

describe('stop and kill', () => {
  test('stop --kill ends the turn immediately, and is refused without a turn', async () => {
    const name = await busy();
    expect(await ada.prints(['stop', name, '--kill'])).toBe(`killed run 1 of ${name}\n`);
    await ada.agents.wait(name);
    expect(await ada.muster(['stop', name])).toMatchObject({
      code: 5,
      err: `muster: ${name} has no turn to stop; to end the agent, use muster kill ${name}\n`,
    });
  });

  test('what a killed agent has left is in its last checkpoint', async () => {
    const name = await spawned('!run echo draft > draft.txt; echo written\n!sleep 600');
    await until(
      'its file',
      () => ada.agents.timeline(name, 'TOOL_RESULT'),
      (results) => results.length > 0,
    );
    expect((await ada.agents.status(name)).checkpointAt).toBeNull();
    await ada.prints(['kill', name, '--yes']);
    await until(
      'its last checkpoint',
      () => ada.agents.status(name),
      ({ checkpointAt }) => checkpointAt !== null,
    );
    expect(await ada.agents.timeline(name, 'PROCESS_GONE')).toMatchObject([
      { text: 'confirmed by its runner' },
    ]);
    const folder = mkdtempSync(join(tmpdir(), 'muster-killed-'));
    await ada.prints(['work', name, '-f', join(folder, 'work.tar.gz')]);
    execFileSync('tar', ['-xzf', 'work.tar.gz'], { cwd: folder });
    execFileSync('tar', ['-xf', 'files.tar'], { cwd: folder });
    expect(readFileSync(join(folder, 'draft.txt'), 'utf8')).toBe('draft\n');
    rmSync(folder, { recursive: true });
  });

  test('kill lists what it would end, and refuses without a terminal or --yes', async () => {
    const name = await busy();
    await ada.agents.spawn(`${name}/tests`, { description: '!sleep 600' });
    await ada.agents.spawn(`${name}/docs`, { description: '!finish' });
    await ada.agents.wait(`${name}/docs`);
    const { code, err } = await ada.muster(['kill', name]);
    expect(code).toBe(2);
    expect(err).toMatch(
      new RegExp(`^This ends ${name} \\(.*\\) and 1 agent below it:\\n {2}${name}/tests \\(.*\\)\\n`),
    );
    // Nothing of their first minute was saved.
    expect(err).toContain('A turn in progress may have changed more than its last checkpoint shows.\n');
    expect(err).toContain('download it with muster work.\n');
    expect(err).not.toContain('docs');
    expect(err).toContain('use --yes');
    const done = await ada.muster(['kill', name, '-y']);
    expect(done.err).toContain(`${name} may have had unpushed work; muster work default:${name} downloads`);
    expect(await ada.agents.status(`${name}/tests`)).toMatchObject({ phaseReason: 'PARENT_KILLED' });
    expect(await ada.muster(['kill', name])).toMatchObject({ code: 5 });
  });
});

test('tasks are listed, added and changed', async () => {
  const name = await idle('!say Hi.', 'First');
  const id = (await ada.prints(['tasks', 'add', name, 'Second', '--description', 'Later.'])).trim();
  const line = async (): Promise<string | undefined> =>
    (await ada.prints(['tasks', name])).split('\n').find((one) => one.includes('Second'));
  expect(await line()).toBe(`[ ] ${id}  Second`);
  const seen = [];
  for (const move of ['start', 'reopen', 'done']) seen.push(await ada.prints(['tasks', move, name, id]));
  expect(seen.map((text) => text.slice(0, 3))).toEqual(['[~]', '[ ]', '[x]']);
  expect(await ada.muster(['tasks', 'reopen', name, id])).toMatchObject({ code: 5 });
  const { id: other } = await ada.data<{ id: string }>(['tasks', 'add', name, 'Third']);
  expect(await ada.prints(['tasks', 'delete', name, other])).toBe(`[-] ${other}  Third\n`);
  expect(await ada.muster(['tasks', 'done', name, 'nonsense'])).toMatchObject({ code: 3 });
  const none = await spawned('!say Hi.');
  expect(await ada.muster(['tasks', none])).toMatchObject({ code: 0, out: '' });
});

test('status shows all fields of an agent', async () => {
  const plan = '!plan [x] Read it; [>] Fix it\n!context 50000 200000\n!compact 180000 50000';
  const name = await idle(`!say Hello.\n!usage 100 20 3 0.25\n${plan}`, 'First');
  await ada.agents.queue(name, { description: 'Later.', followUpId: 'later', deliverAt: inAnHour() });
  const text = await ada.prints(['status', name]);
  expect(text).toMatch(new RegExp(`^${name} {2}\\(rehearsal`));
  for (const fact of ['status ', 'model ', 'cost        $0.25', '[ ] ', 'later ', 'dashboard ', '\nHello.\n'])
    expect(text).toContain(fact);
  expect(text).toContain('context     50k of 200k tokens (25 %)');
  expect(text).toMatch(/^plan {8}\[x\] Read it\n {12}\[~\] Fix it$/m);
  const log = await ada.prints(['logs', name]);
  expect(log).toMatch(/ ≡ plan: 1 of 2 steps done; now: Fix it$/m);
  expect(log).toMatch(/ ─ The context was compacted from 180k to 50k tokens\.$/m);
  expect(await ada.data(['status', name])).toMatchObject({ response: 'Hello.' });
});
