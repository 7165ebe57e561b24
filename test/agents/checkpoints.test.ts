import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import { Crew, held, patienceMs, shortLease } from './crew.ts';
import { backends, type Fleet, startFleet } from './fleet.ts';

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

const often = { MUSTER_CHECKPOINT_SECONDS: '1' } as const;
const reminder = 'Reminder: 1 commit is not pushed.';

/** A commit that is not pushed, a changed file and a new one. */
const makeWork =
  'test -e new.txt || { echo one > one.txt && git add one.txt && git commit --quiet --message One && echo changed > README.md && echo new > new.txt; }';
const showWork = 'echo found $(git log -1 --format=%s) $(cat one.txt README.md new.txt)';
const found = 'found One one changed new';

async function runEnded(crew: Crew, path: string, runs: number): Promise<void> {
  await until(
    `the end of run ${runs}`,
    () => crew.outcomes(path),
    ({ length }) => length >= runs,
    patienceMs,
  );
}

describe.each(backends)('$title', { timeout: 180_000 }, ({ model }) => {
  it('has its unpushed work and its conversation on another runner, however the first one died', async () => {
    const crew = await Crew.gather(fleet);
    const { agents } = crew;
    const working = held();
    const first = fleet.stub.script([
      { shell: makeWork },
      { until: working.promise },
      { say: 'The first coat is on.' },
      { say: 'It stays here for now.' },
    ]);
    const here = await crew.runner();
    await agents.spawn('painter', { model, description: `Put on a coat. ${first}` });
    await crew.asked(first, 2);
    // On a busy machine the run may lose its lease meanwhile: then another one does and says all of it again.
    await fleet.restartServer('SIGKILL');
    working.release();
    const rested = await crew.rested('painter');
    expect(rested).toMatchObject({ response: 'It stays here for now.', unpushed: { commits: 1, files: 2 } });
    expect(rested.checkpointAt).not.toBeNull();
    const { body: diff } = await fleet.api.post<{ diff: string; workingTree: { diff: string } | null }>(
      '/v1/agent/diff',
      { agentId: rested.agentId },
    );
    expect(diff.diff).toBe('');
    for (const line of ['+one', '+changed', '+new']) expect(diff.workingTree?.diff).toContain(line);

    // Between two runs.
    await here.kill();
    const waiting = held();
    const second = fleet.stub.script([
      { shell: `${showWork} && echo more >> more.txt && echo more has $(wc -l < more.txt)` },
      { until: waiting.promise },
      { say: 'The second coat is on.' },
    ]);
    await agents.queue('painter', `Put on a second. ${second}`);
    const there = await crew.runner(often);
    await crew.asked(second, 2);
    const [, told = ''] = crew.shown(second);
    expect(told).toContain('The first coat is on.');
    expect(told).toContain(found);
    expect(told).toContain('more has 1');
    const warned = await agents.timeline('painter', 'WARNING', 'ERROR');
    const [ended] = (await agents.timeline('painter', 'RUN_ENDED')).slice(-1);
    // In each run once; nothing else is warned of.
    expect(new Set(warned.map(({ text }) => text))).toEqual(new Set([reminder]));
    expect(new Set(warned.map(({ runId }) => runId)).size).toBe(warned.length);
    expect(warned.at(-1)?.runId).toBe(ended?.runId);

    // In the middle of one.
    await until(
      'a checkpoint with the new file',
      () => agents.status('painter'),
      ({ unpushed, phase }) => unpushed?.files === 3 && phase === 'PHASE_RUNNING',
      patienceMs,
    );
    await there.kill();
    waiting.release();
    await crew.runner();
    await until(
      'the last run',
      async () => (await crew.outcomes('painter')).slice(-3).join(),
      (outcomes) => outcomes === 'COMPLETED,LOST,COMPLETED',
      patienceMs,
    );
    const again = crew.shown(second).find((text) => text.includes('more has 2')) ?? '';
    expect(again).toContain('The first coat is on.');
    expect(again).toContain(found);
    const lost = (await crew.outcomes('painter')).length - 1;
    const restoring = `The work was restored from the checkpoint of [^ ]+ \\(run ${lost}\\)`;
    expect(again).toMatch(new RegExp(`\\[Muster: ${restoring}`));
    const [restored] = (await crew.warnings('painter')).filter((text) => text !== reminder);
    expect(restored).toMatch(new RegExp(`^${restoring}\\. Later work is lost`));
  });

  it('uses no half of a checkpoint, and an older session where the newest does not open', async () => {
    const crew = await Crew.gather(fleet);
    const { agents } = crew;
    const first = fleet.stub.script([{ shell: 'echo first > first.txt' }, { say: 'The first coat is on.' }]);
    const second = fleet.stub.script([
      { shell: 'echo here are *.txt && head -c 3000000 /dev/urandom > large.txt' },
      { say: 'The second coat is on.' },
    ]);
    const third = fleet.stub.script([{ shell: 'echo here are *.txt' }, { say: 'The third coat is on.' }]);
    const here = await crew.runner();
    await agents.spawn('painter', { model, description: `Put on a coat. ${first}` });
    await crew.rested('painter');
    await refuseSecondParts();
    await agents.queue('painter', `Put on a second. ${second}`);
    await until('the first part', unfinished, ({ length }) => length === 1, patienceMs);
    await here.kill();
    await store.query('DROP TRIGGER refuse_second_part ON checkpoint_parts');

    const there = await crew.runner();
    await runEnded(crew, 'painter', 3);
    expect(await crew.outcomes('painter')).toEqual(['COMPLETED', 'LOST', 'COMPLETED']);
    expect(await unfinished()).toEqual([]);
    const again = crew.shown(second).at(-1) ?? '';
    expect(again).toContain('The first coat is on.');
    expect(again).toContain('here are first.txt');
    expect(again).not.toContain('here are first.txt large.txt');
    const [restored] = await crew.warnings('painter');
    expect(restored).toMatch(/^The work was restored from the checkpoint of .* \(run 1\)/);

    await there.kill();
    await spoilNewestSession();
    await agents.queue('painter', `Put on a third. ${third}`);
    await crew.runner();
    await runEnded(crew, 'painter', 4);
    const last = crew.shown(third).at(-1) ?? '';
    expect(last).toContain('The first coat is on.');
    expect(last).not.toContain('The second coat is on.');
    expect(last).toContain('here are first.txt large.txt');
    expect(last).toContain('The saved session could not be resumed.');
    expect((await crew.warnings('painter')).at(-1)).toMatch(/^The saved session could not be resumed\./);
  });
});

async function refuseSecondParts(): Promise<void> {
  await store.query(`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the store is full'; END $$`);
  await store.query(`CREATE TRIGGER refuse_second_part BEFORE INSERT ON checkpoint_parts
    FOR EACH ROW WHEN (NEW.part = 1) EXECUTE FUNCTION refuse()`);
}

/** The parts of checkpoints that were never completed. */
async function unfinished(): Promise<unknown[]> {
  const { rows } = await store.query(
    `SELECT p.part FROM checkpoint_parts p JOIN checkpoints c ON c.id = p.checkpoint WHERE c.completed_at IS NULL`,
  );
  return rows;
}

/** As if the harness had written its session's file in a way that it can't read any more. */
async function spoilNewestSession(): Promise<void> {
  const { rows } = await store.query<{ id: string; agent: string; content: Buffer }>(
    `SELECT c.id, c.agent, string_agg(p.content, ''::bytea ORDER BY p.part) AS content
     FROM checkpoints c JOIN checkpoint_parts p ON p.checkpoint = c.id
     GROUP BY c.id, c.agent, c.completed_at ORDER BY c.completed_at DESC LIMIT 1`,
  );
  const [newest] = rows;
  if (!newest) throw new Error('no checkpoint was saved');
  const folder = mkdtempSync(join(fleet.folder, 'spoiled-'));
  execFileSync('tar', ['-xzf', '-', '-C', folder], { input: newest.content });
  const files = execFileSync('find', [join(folder, 'home'), '-name', '*.jsonl'], { encoding: 'utf8' }).trim();
  for (const file of files.split('\n')) writeFileSync(file, 'spoiled\n');
  const content = execFileSync('tar', ['-czf', '-', '-C', folder, '.'], { maxBuffer: 2 ** 26 });
  await store.query('DELETE FROM checkpoint_parts WHERE checkpoint = $1 AND part > 0', [newest.id]);
  await store.query('UPDATE checkpoints SET parts = 1 WHERE id = $1', [newest.id]);
  await store.query('UPDATE checkpoint_parts SET content = $2 WHERE checkpoint = $1', [newest.id, content]);
}
