import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import { TestRunners, withoutRunner } from './test-runners.ts';
import { backends, gate, patienceMs, useTestService } from './test-service.ts';

const service = useTestService(withoutRunner);

const often = { MUSTER_CHECKPOINT_SECONDS: '1' } as const;
const reminder = 'Reminder: 1 commit is not pushed.';

/** A commit that is not pushed, a changed file and a new one. */
const makeWork =
  'test -e new.txt || { echo one > one.txt && git add one.txt && git commit --quiet --message One && echo changed > README.md && echo new > new.txt; }';
const showWork = 'echo found $(git log -1 --format=%s) $(cat one.txt README.md new.txt)';
const found = 'found One one changed new';

describe.each(backends)('$title', { timeout: 180_000 }, ({ model }) => {
  it('has its unpushed work and its conversation on another runner, between two runs and during one', async () => {
    const runners = await TestRunners.create(service());
    const { agents } = runners;
    const working = gate();
    const first = service().script(
      { shell: makeWork },
      { until: working.promise },
      { say: 'The first coat is on.' },
      { say: 'It stays here for now.' },
    );
    const here = await runners.start();
    await agents.spawn('painter', { model, description: `Put on a coat. ${first}` });
    await service().asked(first, 2);
    // On a busy machine the run may lose its lease meanwhile: then another run repeats all of it.
    await service().restartServer('SIGKILL');
    working.open();
    const idle = await agents.idle('painter');
    expect(idle).toMatchObject({
      error: null,
      phaseReason: 'RESTING',
      response: 'It stays here for now.',
      unpushed: { commits: 1, files: 2 },
    });
    expect(idle.checkpointAt).not.toBeNull();
    const { body: diff } = await service().api.post<{ diff: string; workingTree: { diff: string } | null }>(
      '/v1/agent/diff',
      { agentId: idle.agentId },
    );
    expect(diff.diff).toBe('');
    for (const line of ['+one', '+changed', '+new']) expect(diff.workingTree?.diff).toContain(line);

    // Between two runs.
    await here.kill();
    const waiting = gate();
    const second = service().script(
      { shell: `${showWork} && echo more >> more.txt && echo more has $(wc -l < more.txt)` },
      { until: waiting.promise },
      { say: 'The second coat is on.' },
    );
    await agents.queue('painter', `Put on a second. ${second}`);
    const there = await runners.start(often);
    await service().asked(second, 2);
    const [, content = ''] = runners.conversations(second);
    expect(content).toContain('The first coat is on.');
    expect(content).toContain(found);
    expect(content).toContain('more has 1');
    const warned = await agents.timeline('painter', 'WARNING', 'ERROR');
    const [ended] = (await agents.timeline('painter', 'RUN_ENDED')).slice(-1);
    // Once in each run, and no other warnings.
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
    waiting.open();
    await runners.start();
    await until(
      'the last run',
      async () => (await agents.outcomes('painter')).slice(-3).join(),
      (outcomes) => outcomes === 'COMPLETED,LOST,COMPLETED',
      patienceMs,
    );
    const again = runners.conversations(second).find((text) => text.includes('more has 2')) ?? '';
    expect(again).toContain('The first coat is on.');
    expect(again).toContain(found);
    const lost = (await agents.outcomes('painter')).length - 1;
    const restoring = `The work was restored from the checkpoint of [^ ]+ \\(run ${lost}\\)`;
    expect(again).toMatch(new RegExp(`\\[Muster: ${restoring}`));
    const [restored] = (await agents.warnings('painter')).filter((text) => text !== reminder);
    expect(restored).toMatch(new RegExp(`^${restoring}\\. Later work is lost`));
  });

  it('ignores an incomplete checkpoint, and uses an older session if the newest does not open', async () => {
    const runners = await TestRunners.create(service());
    const { agents } = runners;
    const first = service().script({ shell: 'echo first > first.txt' }, { say: 'The first coat is on.' });
    const second = service().script(
      { shell: 'echo here are *.txt && head -c 3000000 /dev/urandom > large.txt' },
      { say: 'The second coat is on.' },
    );
    const third = service().script({ shell: 'echo here are *.txt' }, { say: 'The third coat is on.' });
    const here = await runners.start();
    await agents.spawn('painter', { model, description: `Put on a coat. ${first}` });
    await agents.idle('painter');
    await refuseSecondParts();
    await agents.queue('painter', `Put on a second. ${second}`);
    await until('the first part', incompleteParts, ({ length }) => length === 1, patienceMs);
    await here.kill();
    await service().query('DROP TRIGGER refuse_second_part ON checkpoint_parts');

    const there = await runners.start();
    await agents.runEnded('painter', 3);
    expect(await agents.outcomes('painter')).toEqual(['COMPLETED', 'LOST', 'COMPLETED']);
    expect(await incompleteParts()).toEqual([]);
    const again = runners.conversations(second).at(-1) ?? '';
    expect(again).toContain('The first coat is on.');
    expect(again).toContain('here are first.txt');
    expect(again).not.toContain('here are first.txt large.txt');
    const [restored] = await agents.warnings('painter');
    expect(restored).toMatch(/^The work was restored from the checkpoint of .* \(run 1\)/);

    await there.kill();
    await corruptNewestSession();
    await agents.queue('painter', `Put on a third. ${third}`);
    await runners.start();
    await agents.runEnded('painter', 4);
    const last = runners.conversations(third).at(-1) ?? '';
    expect(last).toContain('The first coat is on.');
    expect(last).not.toContain('The second coat is on.');
    expect(last).toContain('here are first.txt large.txt');
    expect(last).toContain('The saved session could not be resumed.');
    expect((await agents.warnings('painter')).at(-1)).toMatch(/^The saved session could not be resumed\./);
  });
});

async function refuseSecondParts(): Promise<void> {
  await service().query(`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the disk is full'; END $$`);
  await service().query(`CREATE TRIGGER refuse_second_part BEFORE INSERT ON checkpoint_parts
    FOR EACH ROW WHEN (NEW.part = 1) EXECUTE FUNCTION refuse()`);
}

/** The parts of checkpoints that were never completed. */
async function incompleteParts(): Promise<unknown[]> {
  const rows = await service().query(
    `SELECT p.part FROM checkpoint_parts p JOIN checkpoints c ON c.id = p.checkpoint WHERE c.completed_at IS NULL`,
  );
  return rows;
}

/** As if the harness had written a session file that it can't read. */
async function corruptNewestSession(): Promise<void> {
  const rows = await service().query<{ id: string; agent: string; content: Buffer }>(
    `SELECT c.id, c.agent, string_agg(p.content, ''::bytea ORDER BY p.part) AS content
     FROM checkpoints c JOIN checkpoint_parts p ON p.checkpoint = c.id
     GROUP BY c.id, c.agent, c.completed_at ORDER BY c.completed_at DESC LIMIT 1`,
  );
  const [newest] = rows;
  if (!newest) throw new Error('no checkpoint was saved');
  const folder = mkdtempSync(join(service().folder, 'corrupt-'));
  execFileSync('tar', ['-xzf', '-', '-C', folder], { input: newest.content });
  const files = execFileSync('find', [join(folder, 'home'), '-name', '*.jsonl'], { encoding: 'utf8' }).trim();
  for (const file of files.split('\n')) writeFileSync(file, 'corrupt\n');
  const content = execFileSync('tar', ['-czf', '-', '-C', folder, '.'], { maxBuffer: 2 ** 26 });
  await service().query('DELETE FROM checkpoint_parts WHERE checkpoint = $1 AND part > 0', [newest.id]);
  await service().query('UPDATE checkpoints SET parts = 1 WHERE id = $1', [newest.id]);
  await service().query('UPDATE checkpoint_parts SET content = $2 WHERE checkpoint = $1', [
    newest.id,
    content,
  ]);
}
