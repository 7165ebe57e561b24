import type { AgentStatus } from '@muster/sdk/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { TestUser, userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer({ runner: false });
let t: TestTenant;

beforeAll(async () => {
  t = await newTestTenant(ada.api);
});

const label = (team: string) => ({ labels: { team } });

describe('commands on several agents', () => {
  test('names: each gets the message; one that is refused keeps no other from it', async () => {
    for (const name of ['one', 'two']) await t.spawn(name);
    const sent = await ada.muster(['send', 'one', 'missing', 'two', 'hello', 'there', '-o', 'json']);
    expect(sent.code).toBe(3);
    expect(sent.err).toContain('muster: missing: ');
    expect(JSON.parse(sent.out)).toMatchObject([
      { agent: 'one', followUpId: expect.any(String) },
      { agent: 'missing', error: expect.stringContaining('missing') },
      { agent: 'two', followUpId: expect.any(String) },
      { agent: 'hello', error: expect.any(String) },
    ]);
    for (const name of ['one', 'two'])
      expect((await ada.prints(['queue', name])).match(/there/g)).toHaveLength(1);
  });

  test('--label and --all list the agents and ask once; without a terminal they need --yes', async () => {
    for (const name of ['red-1', 'red-2']) await t.spawn(name, label('red'));
    await t.spawn('blue', label('blue'));
    for (const args of [['send', 'hi'], ['kill']]) {
      const asked = await ada.muster([...args, '--label', 'team=red']);
      expect(asked).toMatchObject({ code: 2, out: '' });
      expect(asked.err).toContain('red-1');
      expect(asked.err).toContain('red-2');
      expect(asked.err).not.toContain('blue');
      expect(asked.err).toContain('use --yes');
    }
    expect(await ada.muster(['kill', 'blue', '--label', 'team=red'])).toMatchObject({ code: 2 });
    expect(await ada.prints(['kill', '--label', 'team=red', '--yes'])).toBe('ended red-1\nended red-2\n');
    expect((await ada.data<AgentStatus>(['status', 'blue'])).phase).toBe('PHASE_PENDING');
    expect(await ada.muster(['kill', '--label', 'team=red', '--yes'])).toMatchObject({
      code: 0,
      err: 'no live agent fits\n',
    });
  });

  test('wait --all of many agents prints one array, and nothing else', async () => {
    const names = Array.from({ length: 12 }, (_, at) => `many-${at}`);
    for (const name of names) await t.spawn(name, label('many'));
    const args = ['wait', '--all', '--label', 'team=many', '-o', 'json'];
    const waiting = ada.runProcess(args);
    for (const name of names) await t.turn(name);
    const { code, out, err } = await waiting;
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const paths = (JSON.parse(out) as AgentStatus[]).map(({ agentId }) => agentId.agent.join('/'));
    expect(paths).toEqual(names);
  });

  test('wait --all that times out prints all agents in one array, names those it still waits for and exits with 124', async () => {
    for (const name of ['prompt', 'late', 'later']) await t.spawn(name);
    await t.turn('prompt');
    const args = ['wait', '--all', 'prompt', 'late', 'later', '--timeout', '1s'];
    const [data, text] = [await ada.muster([...args, '-o', 'json']), await ada.muster(args)];
    expect([data.code, text.code]).toEqual([124, 124]);
    expect(JSON.parse(data.out)).toMatchObject([
      { phase: 'PHASE_WAITING_FOR_INPUT', timedOut: false },
      { agentId: { agent: ['late'] }, timedOut: true },
      { agentId: { agent: ['later'] }, timedOut: true },
    ]);
    const message = 'timed out after 1s; still waiting for late, later';
    expect(JSON.parse(data.err)).toEqual({ error: { message, exitCode: 124 } });
    expect(text.out).toMatch(/^prompt idle.*\n$/);
    expect(text.err).toBe(`muster: ${message}\n`);
    await ada.prints(['kill', 'prompt', 'late', 'later', '-y']);
  });

  test('stop and retry take those that have a turn, or are blocked; wait takes a label', async () => {
    await t.spawn('quick', label('green'));
    await t.start('quick');
    await t.spawn('slow', label('green'));
    expect(await ada.prints(['stop', '--label', 'team=green', '--yes'])).toBe('stopping run 1 of quick\n');
    expect(await ada.data(['retry', '--all', '--yes'])).toEqual([]);
    expect(await ada.muster(['retry', 'quick', 'slow', '--wait'])).toMatchObject({ code: 2 });
    const waiting = ada.start(['wait', '--label', 'team=green', '--all', '--timeout', '1s']);
    const [code] = await new Promise<[number | null]>((resolve) =>
      waiting.once('close', (exit) => resolve([exit])),
    );
    expect(code).toBe(124);
    await ada.prints(['kill', 'quick', 'slow', '-y']);
    expect(await ada.muster(['wait', '--label', 'team=green'])).toMatchObject({ code: 0 });
  });

  test('a child is not killed twice, and --all takes your own agents only', async () => {
    await t.spawn('tree');
    await t.start('tree');
    await t.spawn('tree/leaf');
    const bob = new TestUser({
      url: ada.server.url,
      key: (await ada.prints(['token', 'create', 'bob', '--account', 'bob'])).trim(),
    });
    await bob.muster(['spawn', 'x', '--name', 'of-bob', '--workspace', t.workspace]);
    const { out } = await ada.muster(['kill', '--all', '--yes']);
    expect(out).toContain('ended tree\n');
    expect(out).not.toContain('leaf');
    expect(out).not.toContain('of-bob');
    bob.remove();
    for (const [name, team] of [
      ['top', 'deep'],
      ['top/middle', 'other'],
      ['top/middle/leaf', 'deep'],
    ] as const)
      await t.spawn(name, label(team));
    expect(await ada.prints(['kill', '--label', 'team=deep', '--yes'])).toBe('ended top\n');
  });

  test('kill says that an agent has ended where only those below it are live, and what is lost once for all', async () => {
    for (const name of ['ended', 'other']) {
      await t.spawn(name);
      for (const child of ['one', 'two']) await t.spawn(`${name}/${child}`);
    }
    await t.end(await t.start('ended'), 'FAILED', { error: { code: 'AGENT_FAILED', message: 'no' } });
    for (const child of ['one', 'two']) {
      await t.start(`other/${child}`);
      await t.queue(`other/${child}`, 'more');
    }
    const { err } = await ada.muster(['kill', 'ended', 'other/two', 'other']);
    expect(err).toMatch(
      /^ended \(failed.*\) has already ended\. This ends 2 agents below it:\n {2}ended\/one /,
    );
    expect(err).toMatch(/^This ends other \(.*\) and 2 agents below it:$/m);
    for (const once of [/other\/two/g, /in a last checkpoint/g]) expect(err.match(once)).toHaveLength(1);
    expect(err).toContain('\n2 undelivered messages will be cleared.\n');
    await ada.prints(['kill', 'ended', 'other', '-y']);
  });
});

describe('logs', () => {
  test('show the message that was delivered, and entries by run, time and pattern', async () => {
    await t.spawn('logged', { description: 'first request' });
    const first = await t.start('logged');
    const long = Array.from({ length: 40 }, (_, i) => `line ${i}`).join('\n');
    await t.report(first, { items: [{ type: 'TOOL_RESULT', text: long, data: {} }] });
    await t.end(first);
    await ada.prints(['send', 'logged', 'second request']);
    const second = await t.start('logged');
    await t.report(second, { items: [{ type: 'MESSAGE', text: 'a needle', data: {} }] });

    const all = await ada.prints(['logs', 'logged']);
    expect(all).toMatch(/> second request$/m);
    expect(all).toContain('more lines');
    expect(await ada.prints(['logs', 'logged', '--full'])).toContain('line 39');
    const ofSecond = await ada.prints(['logs', 'logged', '--run', '2']);
    expect(ofSecond).toContain('a needle');
    expect(ofSecond).not.toContain('line 1');
    const ofFirst = await ada.prints(['logs', 'logged', '--run', '1']);
    expect(ofFirst).toContain('line 1');
    expect(ofFirst).not.toContain('needle');
    expect((await ada.prints(['logs', 'logged', '--grep', 'need+le'])).trim().split('\n')).toHaveLength(1);
    expect(await ada.prints(['logs', 'logged', '--since', '1h'])).toBe(all);
    expect(await ada.prints(['logs', 'logged', '--since', '2100-01-01'])).toBe('');
    for (const bad of [
      ['--run', 'x'],
      ['--grep', '('],
      ['--since', 'whenever'],
    ])
      expect(await ada.muster(['logs', 'logged', ...bad])).toMatchObject({ code: 2, out: '' });

    const streams = async () => {
      const metrics = await (await fetch(`${ada.server.url}/metrics`)).text();
      return Number(/^muster_long_replies_open\{kind="stream"\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
    };
    const before = await streams();
    const following = ada.start(['logs', 'logged', '--since', '2100-01-01', '--follow']);
    let shown = '';
    following.stdout?.setEncoding('utf8').on('data', (text: string) => {
      shown += text;
    });
    await until('the open stream', streams, (open) => open > before);
    await t.report(second, { items: [{ type: 'MESSAGE', text: 'news', data: {} }] });
    await until(
      'the news',
      async () => shown,
      (text) => text.includes('news'),
    );
    following.kill();
    expect(shown).not.toMatch(/first request|needle/);
  });
});

describe('agent delete', () => {
  test('lists what is deleted and asks; refuses an agent that has not ended', async () => {
    await t.spawn('old');
    await t.turn('old');
    await t.spawn('old/helper');
    expect(await ada.muster(['agent', 'delete', 'old', '--yes'])).toMatchObject({
      code: 5,
      err: 'muster: old has not ended (idle); end it first with muster kill old\n',
    });
    await ada.prints(['kill', 'old', '-y']);
    const asked = await ada.muster(['agent', 'delete', 'old']);
    expect(asked).toMatchObject({ code: 2, out: '' });
    expect(asked.err).toMatch(
      /^This deletes old for good, and\n {2}old\/helper \(killed with its parent\)\n/,
    );
    expect(await ada.prints(['agent', 'delete', 'old', '--yes'])).toBe('deleted old and 1 agent below it\n');
    for (const name of ['old', 'old/helper'])
      expect(await ada.muster(['status', name])).toMatchObject({ code: 3 });
    await t.spawn('old');
    await ada.prints(['kill', 'old', '-y']);
    expect(await ada.data(['agent', 'delete', 'old', '--yes'])).toEqual({ deleted: 1 });
  });
});

describe('texts', () => {
  test('count in the singular, use the same words and local times, and hints fit what is missing', async () => {
    await t.spawn('worded');
    const claim = await t.start('worded');
    const diff = { repo: 'https://git.example.com/shop', files: 1, insertions: 2, deletions: 0, text: '+x' };
    await t.report(claim, {
      pushes: [{ repo: diff.repo, ref: claim.branch, commits: ['c'], files: ['f'] }],
      diff,
      items: [{ type: 'TOOL_CALL', text: '', data: { tool: 'push' } }],
    });
    await t.spawn('worded/kid');
    await t.turn('worded/kid');
    expect(await ada.prints(['status', 'worded'])).toMatch(/^branch .* {2}1 file, \+2 −0$/m);
    const logs = await ada.prints(['logs', 'worded']);
    expect(logs).toMatch(/\$ push$/m);
    expect(logs).toMatch(/\* worded\/kid idle$/m);
    const last = await ada.prints(['logs', 'worded', '-n', '2']);
    expect(logs.endsWith(last)).toBe(true);
    expect(last.trim().split('\n')).toHaveLength(2);
    expect((await ada.muster(['label', 'worded'])).err).toContain('worded has no labels');
    expect(await ada.prints(['reopen', 'worded'])).toMatch(/^worded has not ended;/);
    const missing = await ada.muster(['queue', 'show', 'worded', 'x']);
    expect(missing).toMatchObject({ code: 3 });
    expect(missing.err).toContain('; muster queue worded lists those that are not delivered');
    const task = await ada.muster(['tasks', 'done', 'worded', 'x']);
    expect(task.err).not.toContain('muster ps');
    const key = (await ada.prints(['token', 'create', 'shorter', '--expires', '2d'])).trim();
    const { out } = await ada.muster(['whoami'], { env: { MUSTER_API_KEY: key } });
    expect(out).toMatch(/, expires \d{4}-\d\d-\d\d \d\d:\d\d$/m);
    expect(await ada.prints(['tenant', '--help'])).toContain('show help for a command');
    await ada.prints(['kill', 'worded', '-y']);
  });
});
