import { existsSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import { createKey } from '../support/catalog.ts';
import {
  agentsOn,
  inWorkspace,
  leftOfRuns,
  onlyAgentOn,
  secondAttempt,
  TestRunners,
  withoutRunner,
} from './test-runners.ts';
import {
  backends,
  claudeCode,
  codex,
  gate,
  MusterRunner,
  patienceMs,
  processesWith,
  timesIn,
  useTestService,
} from './test-service.ts';

const service = useTestService(withoutRunner);

const commitAll = 'git add --all && git commit --quiet --message Work && git push';

describe.each(backends)('$title', { timeout: 150_000 }, ({ model, provider }) => {
  it('continues with its whole session on another runner when its runner shuts down, and finds no stale files when it comes back', async () => {
    const runners = await TestRunners.create(service());
    const { agents } = runners;
    const working = gate();
    const first = service().script(
      {
        shell: `test -e wall.txt && echo found $(cat wall.txt) || { echo half > wall.txt && ${commitAll}; }`,
      },
      { shell: 'echo the ladder is $((40 + 3)) high; echo stale > stale.txt' },
      { until: working.promise },
      { say: 'The first coat is on.' },
    );
    const here = await runners.start();
    await agents.spawn('painter', { model, description: `Paint the wall. ${first}` });
    await service().asked(first, 3);
    const there = await runners.start();
    const agentKey = await onlyAgentOn(here);
    expect(processesWith(`MUSTER_RUN=${agentKey}/1`)).not.toEqual([]);

    await here.kill('SIGTERM');
    expect(here.process.exitCode).toBe(0);
    expect(processesWith(`MUSTER_RUN=${agentKey}/1`)).toEqual([]);
    expect(leftOfRuns(here)).toEqual([]);
    working.open();
    expect(await agents.idle('painter')).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      response: 'The first coat is on.',
      error: null,
    });
    expect(await agents.outcomes('painter')).toEqual(['HANDED_BACK', 'COMPLETED']);
    const again = runners.conversations(first).filter((text) => text.includes(secondAttempt));
    expect(timesIn(again[0] ?? '', 'Paint the wall.')).toBe(2);
    expect(again[0]).toContain('the ladder is 43 high');
    expect(again.at(-1)).toContain('found half');
    expect(leftOfRuns(there)).toEqual([]);

    const second = service().script(
      { shell: 'rm stale.txt && echo two > two.txt' },
      { shell: commitAll },
      { say: 'The second coat is on.' },
    );
    await agents.queue('painter', `Put on a second. ${second}`);
    await agents.runEnded('painter', 3);
    await there.kill();
    expect(existsSync(inWorkspace(here, agentKey, 'stale.txt'))).toBe(true);

    const third = service().script({ shell: 'echo here are *.txt' }, { say: 'The third coat is on.' });
    const back = await runners.start({}, here.folder);
    await agents.queue('painter', `Put on a third. ${third}`);
    expect(await agents.runEnded('painter', 4)).toMatchObject({
      response: 'The third coat is on.',
      error: null,
    });
    const starts = await runners.starts('painter');
    expect(starts.map(({ attempt }) => attempt)).toEqual([1, 2, 1, 1]);
    const [one, two, three, four] = starts.map(({ runner }) => runner);
    expect([three, four]).toEqual([two, one]);
    expect(two).not.toBe(one);
    const [request = '', afterCommand = ''] = runners.conversations(third);
    expect(request).toContain('The first coat is on.');
    expect(request).toContain('The second coat is on.');
    expect(afterCommand).toContain('here are two.txt wall.txt');
    expect(existsSync(inWorkspace(back, agentKey, 'stale.txt'))).toBe(false);
    const setAside = agentsOn(back).filter((name) => name !== agentKey);
    expect(setAside.map((name) => existsSync(inWorkspace(back, name, 'stale.txt')))).toEqual([true]);
    expect(await agents.warnings('painter')).toEqual([]);
  });

  it('leaves its branch, its session and its folder when it ends, and the folder only as long as configured', async () => {
    const runners = await TestRunners.create(service());
    const { agents, remote } = runners;
    const runner = await runners.start();
    const keeping = service().script({ shell: 'echo kept > kept.txt' }, { say: 'I rest.' });
    await agents.spawn('rester', { model, description: `Rest. ${keeping}` });
    await agents.idle('rester');
    expect(leftOfRuns(runner)).toEqual([]);
    const resterKey = await onlyAgentOn(runner);
    expect(processesWith(resterKey)).toEqual([]);

    const ending = service().script(
      { shell: `echo done > done.txt && ${commitAll} && echo not pushed yet > draft.txt` },
      { tool: 'finish', args: { summary: 'All is painted.' } },
      { say: 'Good bye.' },
    );
    await agents.spawn('finisher', { model, description: `Finish. ${ending}` });
    const status = await agents.idle('finisher');
    expect(status).toMatchObject({ phase: 'PHASE_COMPLETED', phaseReason: 'FINISHED' });
    expect(agentsOn(runner)).toHaveLength(2);

    const again = service().script(
      { shell: 'cat draft.txt' },
      { tool: 'finish', args: { summary: 'Once more.' } },
      { say: 'Good bye again.' },
    );
    await agents.send('agent/reopen', 'finisher');
    await agents.queue('finisher', `Look at the draft. ${again}`);
    await agents.runEnded('finisher', 2);
    expect(runners.conversations(again)[0]).toContain('Finish.');
    expect(runners.conversations(again).at(-1)).toContain('not pushed yet');
    expect(await agents.warnings('finisher')).toEqual([]);

    await runner.kill('SIGTERM');
    const back = await runners.start({ MUSTER_KEEP_FOLDERS_DAYS: '0' }, runner.folder);
    await until(
      'the folder removed',
      async () => agentsOn(back),
      ({ length }) => length === 1,
      patienceMs,
    );

    expect(agentsOn(runner)).toEqual([resterKey]);
    expect(existsSync(inWorkspace(runner, resterKey, 'kept.txt'))).toBe(true);
    expect(remote.git('show', `${status.branch}:done.txt`)).toBe('done');
    const rows = await service().query(
      `SELECT a.path, max(c.run) AS run FROM checkpoints c JOIN agents a ON a.id = c.agent
       WHERE a.workspace = $1 AND c.final GROUP BY a.path ORDER BY a.path`,
      [agents.workspace],
    );
    expect(rows).toEqual([
      { path: 'finisher', run: 2 },
      { path: 'rester', run: 1 },
    ]);
    expect(leftOfRuns(runner)).toEqual([]);
  });

  it('waits for a runner that has its backend', async () => {
    const runners = await TestRunners.create(service());
    const { agents } = runners;
    const mine = provider === 'anthropic' ? 'ANTHROPIC_API_KEY' : 'OPENAI_API_KEY';
    const other = provider === 'anthropic' ? codex : claudeCode;
    await runners.start({ [mine]: '' });
    await agents.spawn('waiting', {
      model,
      description: `Wait. ${service().script({ say: 'At last.' })}`,
    });
    expect(await agents.phase('waiting')).toBe('PENDING/NO_RUNNER');
    await agents.spawn('served', {
      model: other.model,
      description: `Work. ${service().script({ say: 'At once.' })}`,
    });
    expect(await agents.idle('served')).toMatchObject({ response: 'At once.', error: null });
    expect(await agents.phase('waiting')).toBe('PENDING/NO_RUNNER');
    expect(await agents.runs('waiting')).toEqual([]);

    await runners.start();
    expect(await agents.idle('waiting')).toMatchObject({ response: 'At last.', error: null });
  });
});

describe('muster runner', () => {
  const start = (key: string, pool = 'default'): Promise<MusterRunner> =>
    MusterRunner.start({
      url: service().server.url,
      key,
      pool,
      folder: mkdtempSync(join(service().folder, 'runner-')),
      env: { ANTHROPIC_API_KEY: 'sk-ant-unused', MUSTER_SANDBOX: 'off' },
    });
  const ended = (line: string): Error => new Error(`muster runner ended with 1:\nmuster: ${line}\n`);

  it('ends with one line when its pool is not that of its key', async () => {
    const { key } = await createKey(service().api, { role: 'runner', pool: 'left' });
    await expect(start(key, 'right')).rejects.toEqual(
      ended('the runner\'s key is of pool "left"; the runner asks for pool "right"'),
    );
  });

  it('ends with one line when its key is not one of a runner', async () => {
    const { key } = await createKey(service().api, { role: 'member' });
    await expect(start(key)).rejects.toEqual(
      ended('the API key has role member; a runner needs a key of role runner'),
    );
  });

  it('ends with one line when the service does not know its key', async () => {
    await expect(start('mst_nobody00.000000000000000000000000')).rejects.toEqual(
      ended(`the service at ${service().server.url} does not know this API key`),
    );
  });
});
