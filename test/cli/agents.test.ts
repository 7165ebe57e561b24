import type { ChildProcess } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { writeResource } from '../support/catalog.ts';
import { newTestTenant } from '../support/test-tenant.ts';
import { resultOf, userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer();

let count = 0;
const fresh = (): string => {
  count += 1;
  return `agent-${count}`;
};

const idle = (text = '!say Done.'): Promise<string> => ada.spawnAndWait(fresh(), text);
const busy = (): Promise<string> => ada.busy(fresh());

/** Resolves with everything that a command has printed, once it contains a text. */
function outputWith(child: ChildProcess): (text: string) => Promise<string> {
  let out = '';
  let onOutput = () => {};
  child.stdout?.on('data', (chunk: Buffer) => {
    out += chunk;
    onOutput();
  });
  return (text) =>
    new Promise((resolve) => {
      onOutput = () => out.includes(text) && resolve(out);
      onOutput();
    });
}

describe('spawn', () => {
  test('prints the name, and on standard error how to follow the agent', async () => {
    const name = fresh();
    const { code, out, err } = await ada.muster(['spawn', 'Look around.', '--name', name]);
    expect({ code, out }).toEqual({ code: 0, out: `${name}\n` });
    expect(err).toContain(`muster logs -f default:${name}`);
  });

  test('of an agent with the same name elsewhere, hints and errors print names that work', async () => {
    const name = fresh();
    await ada.muster(['spawn', 'Look around.', '--name', name]);
    const { err } = await ada.muster(['spawn', 'Look around.', '--name', name, '--workspace', 'code']);
    expect(err).toContain(`muster logs -f code:${name}`);
    const several = await ada.muster(['status', name]);
    expect(several).toMatchObject({
      code: 2,
      err: expect.stringContaining(`name one: code:${name}, default:${name}`),
    });
    for (const each of [`code:${name}`, `default:${name}`]) await ada.prints(['status', each]);
  });

  test('takes its text from a file, standard input, or -', async () => {
    const file = ada.file('work.md', '!say from a file\n');
    const sources: [string[], string?][] = [
      [['--file', file]],
      [[], '!say piped\n'],
      [['-'], '!say by a dash\n'],
      [['-f', '-'], '!say by a dash in a flag\n'],
    ];
    const responses = [];
    for (const [args, input] of sources)
      responses.push(
        (await ada.data(['spawn', ...args, '--wait'], input === undefined ? {} : { input })).response,
      );
    expect(responses).toEqual(['from a file', 'piped', 'by a dash', 'by a dash in a flag']);
  });

  test('waits for standard input that comes late', async () => {
    const child = ada.start(['spawn', '--wait', '-o', 'json'], { input: null });
    const answer = resultOf(child);
    // When this command has ended, the other one has found its input still empty.
    await ada.runProcess(['whoami']);
    child.stdin?.end('!say late');
    expect(JSON.parse((await answer).out)).toMatchObject({ response: 'late' });
  });

  test('names what is missing, and does not read standard input for an agent with tasks', async () => {
    expect(await ada.muster(['spawn'])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^muster: say what the agent should do.*\n$/),
    });
    const both = await ada.muster(['spawn', 'text', '--file', 'x']);
    expect(both).toMatchObject({ code: 2, err: 'muster: use the text or --file, not both\n' });
    const { tasks } = await ada.data<{ tasks: { subject: string }[] }>([
      ...['spawn', '--task', 'One', '--task', 'Two', '--wait'],
    ]);
    expect(tasks.map(({ subject }) => subject)).toEqual(['One', 'Two']);
  });

  test('passes on every setting', async () => {
    await writeResource(ada.agents.api, 'workspace', 'shop', {});
    await writeResource(ada.api, 'persona', 'tester', { instructions: 'You test.' });
    const schema = ada.file('schema.json', '{"type":"object"}');
    const name = fresh();
    const status = await ada.data([
      ...['spawn', '!output {"a":1}', '--name', name, '--workspace', 'shop', '--persona', 'tester'],
      ...['--model', 'rehearsal-b', '--effort', 'high', '--tier', 'flex', '--expect', 'A number.'],
      ...['--schema', schema, '--wait'],
    ]);
    expect(status).toMatchObject({
      agentId: { agent: [name], workspace: 'shop' },
      persona: 'tester',
      model: 'rehearsal-b',
      reasoningEffort: 'high',
      serviceTier: 'flex',
      structuredOutput: { a: 1 },
    });
    expect(await ada.prints(['status', `shop:${name}`])).toMatch(/^workspace +shop$/m);
  });

  test('--follow shows the transcript, and exits with the code for its status', async () => {
    const name = fresh();
    const text = 'Please.\n!say Looking.\n!run echo found it\n!ask Which one?';
    const { code, out, err } = await ada.muster(['spawn', text, '--name', name, '--follow']);
    const lines = out.split('\n').map((line) => line.slice('00:00 '.length));
    expect(lines).toEqual(expect.arrayContaining(['> Please.', '  Looking.', '? Which one?']));
    expect(out).toContain('echo found it');
    expect(out).toMatch(/run 1 completed/);
    expect(err).toContain(`${name} needs input: Which one?`);
    expect(code).toBe(12);
  });

  test('--follow prints the entries as JSON', async () => {
    const { out } = await ada.muster(['spawn', '!say Hello.', '--follow', '-o', 'json']);
    const entries = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { type: string });
    expect(entries.map(({ type }) => type)).toEqual(expect.arrayContaining(['AGENT_SPAWNED', 'MESSAGE']));
  });
});

describe('ps', () => {
  test('shows a tree, with --all also agents that have ended', async () => {
    const root = await busy();
    await ada.spawnAndWait(`${root}/tests`, '!say Hi.');
    const finished = await idle('!finish');
    const shown = await ada.prints(['ps']);
    expect(shown).toMatch(new RegExp(`^${root} .*\\n· tests +idle`, 'm'));
    expect(shown).toMatch(/^AGENT .* DESCRIPTION\b/);
    expect(shown).toMatch(/^· tests .* !say Hi\. *$/m);
    expect(shown).not.toContain(finished);
    expect(await ada.prints(['ps', '--all'])).toMatch(new RegExp(`^${finished} +finished`, 'm'));
    const entries = await ada.data<{ agentId: { agent: string[] } }[]>(['ps', '-a']);
    expect(entries.map(({ agentId }) => agentId.agent.join('/'))).toContain(`${root}/tests`);
    expect(await ada.prints(['ps', '-o', 'yaml'])).toMatch(/^- agentId:/);
  });

  test('says what agents answered, asked and are doing, and how many tasks are done', async () => {
    const { workspace } = ada.agents;
    const prefix = await idle('!task add one\n!task add two\n!task done one\n!say Builds **green**.');
    await ada.spawnAndWait(`${prefix}/asks`, '!ask Which **colour**?');
    const listed = await ada.prints(['ps', '--workspace', workspace]);
    expect(listed).toMatch(new RegExp(`^${prefix} .* 1 of 2 +Builds green\\.`, 'm'));
    expect(listed).toMatch(/^· asks +needs input .* Which colour\?/m);
  });

  test('shows the whole path of an agent whose parent has ended', async () => {
    const root = await idle('!say Hi.');
    await ada.spawnAndWait(`${root}/left`, '!say Hi.');
    await ada.agents.queue(root, '!finish');
    await ada.agents.wait(root);
    expect(await ada.prints(['ps'])).toMatch(new RegExp(`^${root}/left +idle`, 'm'));
    expect(await ada.prints(['ps', '-a'])).toMatch(new RegExp(`^${root} +finished.*\\n· left +idle`, 'm'));
  });

  test('--watch prints every agent as JSON, at any depth, and each change', async () => {
    const root = await idle('!say Hi.');
    const child = ada.start(['ps', '--watch', '-o', 'json']);
    const shows = outputWith(child);
    await shows(`"${root}"`);
    await ada.spawnAndWait(`${root}/deep`, '!say Hi.');
    const lines = (await shows('"deep"')).split('\n').slice(0, -1);
    expect(lines.map((line) => JSON.parse(line) as unknown)).not.toEqual([]);
    child.kill();
  });

  test('says what to do when there are no agents', async () => {
    const { code, out, err } = await ada.muster(['ps', '--workspace', 'nowhere']);
    expect({ code, out, err }).toEqual({
      code: 0,
      out: '',
      err: 'no agents; spawn one with muster spawn "…"\n',
    });
  });
});

describe('logs', () => {
  test('shows all entries, the newest, or JSON', async () => {
    const name = await idle('!say one\n!say two\nand \u001b[2Jno tricks');
    const all = await ada.prints(['logs', name]);
    expect(all).toMatch(/one\n.* two\n/);
    expect(all).not.toContain('\u001b');
    const newest = (await ada.prints(['logs', name, '-n', '2', '--json'])).trim().split('\n');
    expect(newest.map((line) => JSON.parse(line))).toHaveLength(2);
    expect(await ada.prints(['logs', name, '-n', '1', '-o', 'yaml'])).toMatch(/^---\nsequence: "\d+"\n/);
    expect(await ada.muster(['logs', name, '-n', 'few'])).toMatchObject({ code: 2 });
  });

  test('marks a completed task instead of naming its status', async () => {
    const name = await idle('!task add Sweep the floor\n!task done Sweep the floor');
    const all = await ada.prints(['logs', name]);
    expect(all).toMatch(/ ☐ Sweep the floor: pending$/m);
    expect(all).toMatch(/ ☑ Sweep the floor$/m);
    expect(all).not.toContain('floor: completed');
  });

  test('-f shows new entries, each once', async () => {
    const name = await idle('!say first');
    const child = ada.start(['logs', '-f', name]);
    const shows = outputWith(child);
    await ada.agents.queue(name, '!say second');
    const out = await shows('second');
    child.kill();
    expect(out.match(/ {2}first$/gm)).toHaveLength(1);
  });
});

describe('send and queue', () => {
  test('a message with an id is delivered once', async () => {
    const name = await idle();
    expect(await ada.prints(['send', name, '!say once', '--id', 'mine', '--wait'])).toContain('once');
    expect(await ada.prints(['send', name, '!say once', '--id', 'mine'])).toBe('mine\n');
    expect((await ada.prints(['logs', name])).match(/ {2}once$/gm)).toHaveLength(1);
    const followed = await ada.muster(['send', name, '--follow'], { input: '!say from the pipe\n!ask Now?' });
    expect(followed).toMatchObject({ code: 12, out: expect.stringContaining('from the pipe') });
    expect(followed.out).not.toContain('once');
  });

  test('--at and --in defer a message; queue lists, removes and clears', async () => {
    const name = await idle();
    const { err } = await ada.muster(['send', name, 'Later.', '--at', 'tomorrow 9:00', '--id', 'at-nine']);
    expect(err).toMatch(/^will be delivered at \d{4}-\d{2}-\d{2} 09:00; cancel it with muster queue remove/);
    await ada.prints(['send', name, 'Soon.', '--in', '2h', '--id', 'in-two']);
    const waiting = await ada.data<{ followUpId: string; deliverAt: string }[]>(['queue', name]);
    const hours = waiting.map(({ deliverAt }) => (Date.parse(deliverAt) - Date.now()) / 3_600_000);
    expect(waiting.map(({ followUpId }) => followUpId).sort()).toEqual(['at-nine', 'in-two']);
    expect(Math.min(...hours)).toBeGreaterThan(0);
    for (const list of ['list', 'ls'])
      expect(await ada.prints(['queue', list, name])).toMatch(/^ID +WHEN +AGE +MESSAGE\n/);
    expect(await ada.prints(['queue', 'remove', name, 'in-two'])).toBe('removed in-two\n');
    expect(await ada.muster(['queue', 'remove', name, 'in-two'])).toMatchObject({ code: 3 });
    const worker = await busy();
    await ada.agents.queue(worker, { followUpId: 'first', description: 'Then this.' });
    await ada.agents.queue(worker, { followUpId: 'second', description: 'Then that.' });
    expect(await ada.prints(['queue', 'order', worker, 'second'])).toBe('second\nfirst\n');
    const none = await ada.muster(['queue', 'order', worker, 'none']);
    expect(none.err).toContain('"none" is not queued');
    expect(await ada.prints(['queue', 'remove', worker, 'second'])).toBe('removed second\n');
    expect(await ada.prints(['queue', 'clear', worker])).toBe('cleared 1 message\n');
    expect(await ada.muster(['queue', worker])).toMatchObject({ code: 0, out: '' });
    for (const args of [
      ['--at', 'whenever'],
      ['--in', 'a while'],
      ['--at', 'noon', '--in', '1h'],
    ])
      expect(await ada.muster(['send', name, 'x', ...args])).toMatchObject({ code: 2 });
  });

  test('a delay is shown by ps and wait, with its reason, attempt and time, and by send and queue', async () => {
    const t = await newTestTenant(ada.agents.api);
    const name = fresh();
    const agent = `${t.workspace}:${name}`;
    await t.spawn(name);
    const error = { code: 'GIT_UNREACHABLE', message: 'Connection timed out' };
    await t.end(await t.start(name), 'FAILED', { error });
    const { code, err } = await ada.muster(['wait', agent, '--timeout', '2s']);
    expect(code).toBe(124);
    expect(err).toMatch(
      new RegExp(`${name} retrying at .*\\d\\d:\\d\\d: Connection timed out \\(attempt 1\\)`),
    );
    const listed = await ada.prints(['ps', '--workspace', t.workspace]);
    expect(listed).toMatch(/NEWS +DESCRIPTION\n.*retrying at .*\(attempt 1\)/s);
    expect((await ada.muster(['send', agent, 'And then this.'])).err).toMatch(/continues at .*\d\d:\d\d/);
    expect((await ada.muster(['queue', agent])).err).toMatch(/is retrying at .*\d\d:\d\d/);
    await ada.prints(['kill', agent, '--yes']);
  });

  test('--preempt interrupts the turn', async () => {
    const name = await busy();
    const status = await ada.data(['send', name, '!say Instead.', '--preempt', '--wait']);
    expect(status).toMatchObject({ response: 'Instead.' });
  });
});
