import { existsSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import { createKey } from '../support/catalog.ts';
import {
  agentsOn,
  Crew,
  held,
  inWorkspace,
  leftOfRuns,
  onlyAgentOn,
  patienceMs,
  processesWith,
  secondTry,
  shortLease,
  timesIn,
} from './crew.ts';
import { backends, claudeCode, codex, type Fleet, MusterRunner, startFleet } from './fleet.ts';

let fleet: Fleet;
let store: pg.Client;
beforeAll(async () => {
  fleet = await startFleet({ runner: false, env: shortLease });
  store = new pg.Client({ connectionString: fleet.server.databaseUrl });
  await store.connect();
});
afterAll(async () => {
  await store.end();
  await fleet.close();
});

const commitAll = 'git add --all && git commit --quiet --message Work && git push';

describe.each(backends)('$title', { timeout: 150_000 }, ({ model, provider }) => {
  it('goes on elsewhere with the whole of its session when its runner is told to leave', async () => {
    const crew = await Crew.gather(fleet);
    const { agents } = crew;
    const { promise, release } = held();
    const marker = fleet.stub.script([
      {
        shell: `test -e wall.txt && echo found $(cat wall.txt) || { echo half > wall.txt && ${commitAll}; }`,
      },
      { shell: 'echo the ladder is $((40 + 3)) high' },
      { until: promise },
      { say: 'Painted.' },
    ]);
    const here = await crew.runner();
    await agents.spawn('painter', { model, description: `Paint the wall. ${marker}` });
    await crew.asked(marker, 3);
    const there = await crew.runner();
    const agentKey = await onlyAgentOn(here);
    expect(processesWith(`MUSTER_RUN=${agentKey}/1`)).not.toEqual([]);

    await here.kill('SIGTERM');
    expect(here.process.exitCode).toBe(0);
    expect(processesWith(`MUSTER_RUN=${agentKey}/1`)).toEqual([]);
    expect(leftOfRuns(here)).toEqual([]);
    release();
    const status = await crew.rested('painter');

    expect(status).toMatchObject({ phase: 'PHASE_WAITING_FOR_INPUT', response: 'Painted.', error: null });
    expect(await crew.outcomes('painter')).toEqual(['HANDED_BACK', 'COMPLETED']);
    const [one, two] = await crew.starts('painter');
    expect([one?.attempt, two?.attempt]).toEqual([1, 2]);
    expect(two?.runner).not.toBe(one?.runner);
    const again = crew.shown(marker).filter((text) => text.includes(secondTry));
    expect(timesIn(again[0] ?? '', 'Paint the wall.')).toBe(2);
    expect(again[0]).toContain('the ladder is 43 high');
    expect(again.at(-1)).toContain('found half');
    expect(await crew.warnings('painter')).toEqual([]);
    expect(leftOfRuns(there)).toEqual([]);
  });

  it('finds nothing stale when it comes back to where it has been', async () => {
    const crew = await Crew.gather(fleet);
    const { agents } = crew;
    const first = fleet.stub.script([
      { shell: 'echo one > one.txt' },
      { shell: commitAll },
      { shell: 'echo stale > stale.txt' },
      { say: 'The first coat is on.' },
    ]);
    const second = fleet.stub.script([
      { shell: 'rm stale.txt && echo two > two.txt' },
      { shell: commitAll },
      { say: 'The second coat is on.' },
    ]);
    const third = fleet.stub.script([{ shell: 'echo here are *.txt' }, { say: 'The third coat is on.' }]);
    const here = await crew.runner();
    await agents.spawn('painter', { model, description: `Put on a coat. ${first}` });
    await crew.rested('painter');
    const agentKey = await onlyAgentOn(here);
    await here.kill('SIGTERM');

    const there = await crew.runner();
    await agents.queue('painter', `Put on a second. ${second}`);
    await until(
      'the second run',
      () => crew.outcomes('painter'),
      ({ length }) => length === 2,
      patienceMs,
    );
    await there.kill();
    expect(existsSync(inWorkspace(here, agentKey, 'stale.txt'))).toBe(true);

    const back = await crew.runner({}, here.folder);
    await agents.queue('painter', `Put on a third. ${third}`);
    await until(
      'the third run',
      () => crew.outcomes('painter'),
      ({ length }) => length === 3,
      patienceMs,
    );
    const status = await crew.rested('painter');

    expect(status).toMatchObject({ response: 'The third coat is on.', error: null });
    expect(await crew.outcomes('painter')).toEqual(['COMPLETED', 'COMPLETED', 'COMPLETED']);
    const [one, two, three] = (await crew.starts('painter')).map(({ runner }) => runner);
    expect(three).toBe(one);
    expect(two).not.toBe(one);
    const [asked = '', told = ''] = crew.shown(third);
    expect(asked).toContain('The first coat is on.');
    expect(asked).toContain('The second coat is on.');
    expect(told).toContain('here are one.txt two.txt');
    expect(existsSync(inWorkspace(back, agentKey, 'stale.txt'))).toBe(false);
    const setAside = agentsOn(back).filter((name) => name !== agentKey);
    expect(setAside.map((name) => existsSync(inWorkspace(back, name, 'stale.txt')))).toEqual([true]);
    expect(await crew.warnings('painter')).toEqual([]);
  });

  it('leaves its branch, its session and its folder when it has ended, and the folder only as long as configured', async () => {
    const crew = await Crew.gather(fleet);
    const { agents, remote } = crew;
    const runner = await crew.runner();
    const resting = fleet.stub.script([{ shell: 'echo kept > kept.txt' }, { say: 'I rest.' }]);
    await agents.spawn('rester', { model, description: `Rest. ${resting}` });
    await crew.rested('rester');
    expect(leftOfRuns(runner)).toEqual([]);
    const resterKey = await onlyAgentOn(runner);
    expect(processesWith(resterKey)).toEqual([]);

    const ending = fleet.stub.script([
      { shell: `echo done > done.txt && ${commitAll} && echo not pushed yet > draft.txt` },
      { tool: 'finish', args: { summary: 'All is painted.' } },
      { say: 'Good bye.' },
    ]);
    await agents.spawn('finisher', { model, description: `Finish. ${ending}` });
    const status = await crew.rested('finisher');
    expect(status).toMatchObject({ phase: 'PHASE_COMPLETED', phaseReason: 'FINISHED' });
    expect(agentsOn(runner)).toHaveLength(2);

    const again = fleet.stub.script([
      { shell: 'cat draft.txt' },
      { tool: 'finish', args: { summary: 'Once more.' } },
      { say: 'Good bye again.' },
    ]);
    await agents.send('agent/reopen', 'finisher');
    await agents.queue('finisher', `Look at the draft. ${again}`);
    await until(
      'the end of the reopened agent',
      () => crew.outcomes('finisher'),
      ({ length }) => length === 2,
      patienceMs,
    );
    expect(crew.shown(again)[0]).toContain('Finish.');
    expect(crew.shown(again).at(-1)).toContain('not pushed yet');
    expect(await crew.warnings('finisher')).toEqual([]);

    await runner.kill('SIGTERM');
    const back = await crew.runner({ MUSTER_KEEP_FOLDERS_DAYS: '0' }, runner.folder);
    await until(
      'the folder removed',
      async () => agentsOn(back),
      ({ length }) => length === 1,
      patienceMs,
    );

    expect(agentsOn(runner)).toEqual([resterKey]);
    expect(existsSync(inWorkspace(runner, resterKey, 'kept.txt'))).toBe(true);
    expect(remote.git('show', `${status.branch}:done.txt`)).toBe('done');
    const { rows } = await store.query(
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
    const crew = await Crew.gather(fleet);
    const { agents } = crew;
    const mine = provider === 'anthropic' ? 'ANTHROPIC_API_KEY' : 'OPENAI_API_KEY';
    const other = provider === 'anthropic' ? codex : claudeCode;
    await crew.runner({ [mine]: '' });
    await agents.spawn('waiting', {
      model,
      description: `Wait. ${fleet.stub.script([{ say: 'At last.' }])}`,
    });
    expect(await agents.phase('waiting')).toBe('PENDING/NO_RUNNER');
    await agents.spawn('served', {
      model: other.model,
      description: `Work. ${fleet.stub.script([{ say: 'At once.' }])}`,
    });
    expect(await crew.rested('served')).toMatchObject({ response: 'At once.', error: null });
    expect(await agents.phase('waiting')).toBe('PENDING/NO_RUNNER');
    expect(await agents.runs('waiting')).toEqual([]);

    await crew.runner();
    expect(await crew.rested('waiting')).toMatchObject({ response: 'At last.', error: null });
  });
});

describe('muster runner', () => {
  const start = (key: string, pool = 'default'): Promise<MusterRunner> =>
    MusterRunner.start({
      url: fleet.server.url,
      key,
      pool,
      folder: mkdtempSync(join(fleet.folder, 'runner-')),
      env: { ANTHROPIC_API_KEY: 'sk-ant-unused', MUSTER_SANDBOX: 'off' },
    });
  const ended = (line: string): Error => new Error(`muster runner ended with 1:\nmuster: ${line}\n`);

  it('ends with one line when its pool is not that of its key', async () => {
    const { key } = await createKey(fleet.api, { role: 'runner', pool: 'left' });
    await expect(start(key, 'right')).rejects.toEqual(
      ended('the key is of pool "left", and the runner means to serve pool "right"'),
    );
  });

  it('ends with one line when its key is not one of a runner', async () => {
    const { key } = await createKey(fleet.api, { role: 'member' });
    await expect(start(key)).rejects.toEqual(
      ended('the key has the role member; a runner needs one of the role runner'),
    );
  });

  it('ends with one line when nobody knows its key', async () => {
    await expect(start('mst_nobody00.000000000000000000000000')).rejects.toEqual(
      ended(`the service at ${fleet.server.url} does not know this API key`),
    );
  });
});
