import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import { TestRunners, withoutRunner } from './test-runners.ts';
import { backends, claudeCode, codex, gate, patienceMs, useTestService } from './test-service.ts';

const service = useTestService(withoutRunner);

const often = { MUSTER_CHECKPOINT_SECONDS: '1' } as const;
const reminder = 'Reminder: 1 commit is not pushed.';

/** A commit that is not pushed, a changed file and a new one. */
const makeWork =
  'test -e new.txt || { echo one > one.txt && git add one.txt && git commit --quiet --message One && echo changed > README.md && echo new > new.txt; }';
const showWork = 'echo found $(git log -1 --format=%s) $(cat one.txt README.md new.txt)';
const found = 'found One one changed new';
const notResumed = 'The saved session could not be resumed.';

describe('Claude Code and Codex', { timeout: 300_000 }, () => {
  it('have their unpushed work and their conversation on another runner, from the newest checkpoint that is complete and opens', async () => {
    const runners = await TestRunners.create(service());
    const { agents } = runners;
    const working = gate();
    const here = await runners.start();
    // Whether a checkpoint is complete does not depend on the backend.
    const saver = 'saver';
    const first = service().script({ shell: 'echo first > first.txt' }, { say: 'The first file is there.' });
    await agents.spawn(saver, { model: codex.model, description: `Write a file. ${first}` });
    const second = service().script(
      { shell: 'echo here are *.txt && head -c 1300000 /dev/urandom > large.txt' },
      { say: 'The second file is there.' },
    );
    await Promise.all(
      backends.map(async ({ name, model }) => {
        const first = service().script(
          { shell: makeWork },
          { until: working.promise },
          { say: 'The first coat is on.' },
          { say: 'It stays here for now.' },
        );
        await agents.spawn(name, { model, description: `Put on a coat. ${first}` });
        await service().asked(first, 2);
      }),
    );
    await agents.idle(saver);
    // On a busy machine the run may lose its lease meanwhile: then another run repeats all of it.
    await service().restartServer('SIGKILL');
    working.open();
    for (const { name } of backends) {
      const idle = await agents.idle(name);
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
    }

    const saverKey = await runners.keyOf(saver);
    await refuseSecondParts();
    await agents.queue(saver, `Write another. ${second}`);
    await until(
      'the first part',
      () => incompleteParts(saverKey),
      ({ length }) => length === 1,
      patienceMs,
    );
    await runners.lose(here);
    await service().query('DROP TRIGGER refuse_second_part ON checkpoint_parts');

    // Between two runs.
    const waiting = gate();
    const there = await runners.start(often);
    const painters = await Promise.all(
      backends.map(async ({ name }) => {
        const second = service().script(
          { shell: `${showWork} && echo more >> more.txt && echo more has $(wc -l < more.txt)` },
          { until: waiting.promise },
          { say: 'The second coat is on.' },
          { say: 'It stays here too.' },
        );
        await agents.queue(name, `Put on a second. ${second}`);
        await service().asked(second, 2);
        const [, content = ''] = runners.conversations(second);
        expect(content).toContain('The first coat is on.');
        expect(content).toContain(found);
        expect(content).toContain('more has 1');
        const warned = await agents.timeline(name, 'WARNING', 'ERROR');
        const ended = (await agents.timeline(name, 'RUN_ENDED')).findLast(({ text }) => text === 'COMPLETED');
        // Once in each run, and no other warnings.
        expect(new Set(warned.map(({ text }) => text))).toEqual(new Set([reminder]));
        expect(new Set(warned.map(({ runId }) => runId)).size).toBe(warned.length);
        expect(warned.at(-1)?.runId).toBe(ended?.runId);
        return { name, second };
      }),
    );

    await agents.runEnded(saver, 3);
    expect(await agents.outcomes(saver)).toEqual(['COMPLETED', 'LOST', 'COMPLETED']);
    expect(await incompleteParts(saverKey)).toEqual([]);
    const repeated = runners.conversations(second).at(-1) ?? '';
    expect(repeated).toContain('The first file is there.');
    expect(repeated).toContain('here are first.txt');
    expect(repeated).not.toContain('here are first.txt large.txt');
    const [restoredFirst] = await agents.warnings(saver);
    expect(restoredFirst).toMatch(/^The work was restored from the checkpoint of .* \(run 1\)/);

    // In the middle of one. A checkpoint that took long is followed by a pause that is ten times as long.
    for (const { name } of painters)
      await until(
        'a checkpoint with the new file',
        () => agents.status(name),
        ({ unpushed, phase }) => unpushed?.files === 3 && phase === 'PHASE_RUNNING',
        3 * patienceMs,
      );
    await runners.lose(there);
    const before = await corruptNewestSession(saverKey);
    await corruptNewestSession(await runners.keyOf(claudeCode.name));
    waiting.open();
    await runners.start();
    const third = service().script({ shell: 'echo here are *.txt' }, { say: 'The third file is there.' });
    await agents.queue(saver, `Look at the files. ${third}`);
    for (const { name, second } of painters) {
      const { runCount, response } = await agents.idle(name);
      expect(response).toBe('It stays here too.');
      expect((await agents.outcomes(name)).slice(-3)).toEqual(['COMPLETED', 'LOST', 'COMPLETED']);
      const again = runners.conversations(second).findLast((text) => text.includes('more has 2')) ?? '';
      expect(again).toContain('The first coat is on.');
      expect(again).toContain(found);
      const restoring = `The work was restored from the checkpoint of [^ ]+ \\(run ${Number(runCount) - 1}\\)`;
      expect(again).toMatch(new RegExp(`\\[Muster: ${restoring}`));
      const isCorrupt = name === claudeCode.name;
      expect(again.includes(notResumed)).toBe(isCorrupt);
      const warnings = (await agents.warnings(name)).filter((text) => text !== reminder);
      if (isCorrupt) expect(warnings.pop()).toContain(notResumed);
      expect(warnings.at(-1)).toMatch(new RegExp(`^${restoring}\\. Later work is lost`));
    }
    await agents.runEnded(saver, 4);
    const last = runners.conversations(third).at(-1) ?? '';
    expect(last).toContain('The first file is there.');
    expect(last).toContain('here are first.txt large.txt');
    expect(last).toContain(`${notResumed} This run continues the session of ${before};`);
    expect((await agents.warnings(saver)).at(-1)).toMatch(new RegExp(`^${notResumed}`));
  });
});

it('a runner that leaves saves the work of a killed run first', { timeout: 150_000 }, async () => {
  const runners = await TestRunners.create(service());
  const { agents } = runners;
  const runner = await runners.start();
  const marker = service().script(
    { shell: 'head -c 20000000 /dev/urandom > drawing' },
    { until: gate().promise },
  );
  await agents.spawn('draws', { model: codex.model, description: `Draw. ${marker}` });
  await service().asked(marker, 2);
  await agents.kill('draws');
  await runner.kill('SIGTERM');
  const { unpushed, checkpointAt } = await agents.status('draws');
  expect(unpushed).toMatchObject({ commits: 0, files: 1, isSaved: true });
  expect(checkpointAt).not.toBeNull();
});

async function refuseSecondParts(): Promise<void> {
  await service().query(`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the disk is full'; END $$`);
  await service().query(`CREATE TRIGGER refuse_second_part BEFORE INSERT ON checkpoint_parts
    FOR EACH ROW WHEN (NEW.part = 1) EXECUTE FUNCTION refuse()`);
}

/** The parts of this agent's checkpoints that were never completed. */
function incompleteParts(agentKey: string): Promise<unknown[]> {
  return service().query(
    `SELECT p.part FROM checkpoint_parts p JOIN checkpoints c ON c.id = p.checkpoint
     WHERE c.agent = $1 AND c.completed_at IS NULL`,
    [agentKey],
  );
}

/** As if the harness had written a session file that it can't read. Returns the time of the checkpoint before. */
async function corruptNewestSession(agentKey: string): Promise<string> {
  const rows = await service().query<{ id: string; content: Buffer; time: string }>(
    `SELECT c.id, string_agg(p.content, ''::bytea ORDER BY p.part) AS content,
       to_char(c.completed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS time
     FROM checkpoints c JOIN checkpoint_parts p ON p.checkpoint = c.id
     WHERE c.agent = $1 AND c.completed_at IS NOT NULL
     GROUP BY c.id, c.completed_at ORDER BY c.completed_at DESC`,
    [agentKey],
  );
  const [newest, before] = rows;
  if (!newest || !before) throw new Error('two checkpoints are needed');
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
  return before.time;
}
