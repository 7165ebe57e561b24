import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import {
  inSessionFile,
  inWorkspace,
  leftOfRuns,
  secondAttempt,
  TestRunners,
  withoutRunner,
} from './test-runners.ts';
import { backends, codex, gate, patienceMs, processesWith, timesIn, useTestService } from './test-service.ts';

const service = useTestService(withoutRunner);

const processesGone = (agentKey: string): Promise<string[]> =>
  until(
    'the last process of the agent gone',
    async () => processesWith(agentKey),
    (pids) => pids.length === 0,
    patienceMs,
  );

describe('when their runner is killed, Claude Code and Codex', { timeout: 150_000 }, () => {
  it('continue in the same session and workspace when the runner comes back; on another runner, start again if nothing was saved, else continue from the saved session and the pushed branch', async () => {
    const runners = await TestRunners.create(service());
    const { agents, remote } = runners;
    const before = await runners.start();
    const painters = await Promise.all(
      backends.map(async ({ name, model }) => {
        const marker = service().script(
          { shell: 'echo the brush is $((40 + 2)) wide' },
          {
            shell:
              'test -e paint.txt && echo found $(cat paint.txt) || { echo red > paint.txt; tail -f paint.txt; }',
          },
          { shell: 'git add --all && git commit --quiet --message Paint && git push' },
          { shell: 'echo wet > wet.txt' },
          { say: 'Painted.' },
        );
        const next = service().script({ say: 'Cleaned up.' });
        await agents.spawn(name, { model, description: `Paint the wall. ${marker}` });
        const key = await runners.keyOf(name);
        const paint = inWorkspace(before, key, 'paint.txt');
        await until('the paint', async () => existsSync(paint), Boolean, patienceMs);
        await inSessionFile(before, key, 'the brush is 42 wide');
        await agents.queue(name, { followUpId: `next-${name}`, description: `Clean up. ${next}` });
        expect(processesWith(key)).not.toEqual([]);
        return { name, key, marker, next };
      }),
    );

    await before.kill();
    for (const { key } of painters) await processesGone(key);
    for (const { name } of painters) await runners.lost(name);
    const after = await runners.start({}, before.folder);

    for (const { name, key, marker, next } of painters) {
      const status = await agents.idle(name);
      expect(status).toMatchObject({
        phase: 'PHASE_WAITING_FOR_INPUT',
        phaseReason: 'RESTING',
        response: 'Cleaned up.',
        error: null,
      });
      expect(await agents.outcomes(name)).toEqual(['LOST', 'COMPLETED', 'COMPLETED']);
      const starts = await runners.starts(name);
      expect(starts.map(({ attempt, batch }) => [attempt, batch])).toEqual([
        [1, '1'],
        [2, '1'],
        [1, '3'],
      ]);
      expect(new Set(starts.map(({ runner }) => runner)).size).toBe(1);

      const conversations = runners.conversations(marker);
      const again = conversations.filter((text) => text.includes(secondAttempt));
      expect(timesIn(again[0] ?? '', 'Paint the wall.')).toBe(2);
      expect(again[0]).toContain('the brush is 42 wide');
      expect(again.at(-1)).toContain('found red');
      expect(conversations.filter((text) => timesIn(text, 'Paint the wall.') === 1)).toHaveLength(2);
      expect(remote.git('show', `${status.branch}:paint.txt`)).toBe('red');

      const [cleaning = ''] = runners.conversations(next);
      expect(cleaning).toContain('Painted.');
      expect(timesIn(cleaning, 'Clean up.')).toBe(1);
      expect(timesIn(cleaning, secondAttempt)).toBe(1);
      const delivered = await agents.timeline(name, 'FOLLOW_UP_DELIVERED');
      expect(delivered.map(({ followUpId, runId }) => [followUpId, runId])).toEqual([[`next-${name}`, '3']]);
      expect(await agents.warnings(name)).toEqual([]);
      expect(processesWith(key)).toEqual([]);
    }
    expect(leftOfRuns(after)).toEqual([]);

    // What a runner has of an agent does not depend on the backend.
    const working = gate();
    const [saved, unsaved] = [codex.name, 'unsaved'];
    const second = service().script(
      { shell: 'echo the ladder is $((40 + 3)) high' },
      { until: working.promise },
      { shell: 'echo here is $(cat paint.txt); ls' },
      { say: 'The second coat is on.' },
    );
    await agents.queue(saved, `Put on another. ${second}`);
    const first = service().script(
      { shell: 'echo begun' },
      { until: working.promise },
      { write: { path: 'wall.txt', text: 'one coat\n' } },
      { say: 'The first coat is on.' },
    );
    await agents.spawn(unsaved, { model: codex.model, description: `Put on a coat. ${first}` });
    await Promise.all([service().asked(second, 2), service().asked(first, 2)]);
    const [savedKey, unsavedKey] = await Promise.all([runners.keyOf(saved), runners.keyOf(unsaved)]);
    expect(processesWith(unsavedKey)).not.toEqual([]);
    const other = await runners.start();
    await after.kill();
    for (const key of [savedKey, unsavedKey]) await processesGone(key);
    working.open();

    expect(await agents.runEnded(unsaved, 2)).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      response: 'The first coat is on.',
      error: null,
    });
    expect(await agents.outcomes(unsaved)).toEqual(['LOST', 'COMPLETED']);
    expect(await agents.warnings(unsaved)).toEqual([
      'The earlier runs were on another runner and saved no checkpoint. This run starts a new session from the pushed branch.',
    ]);
    const restarts = await runners.starts(unsaved);
    expect(restarts.map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(new Set(restarts.map(({ runner }) => runner)).size).toBe(2);
    const [started = ''] = runners.conversations(first).filter((text) => text.includes(secondAttempt));
    expect(timesIn(started, 'Put on a coat.')).toBe(1);
    expect(timesIn(started, secondAttempt)).toBe(1);

    expect(await agents.runEnded(saved, 5)).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      response: 'The second coat is on.',
      error: null,
    });
    expect((await agents.outcomes(saved)).slice(3)).toEqual(['LOST', 'COMPLETED']);
    const starts = await runners.starts(saved);
    expect(starts.slice(3).map(({ attempt }) => attempt)).toEqual([1, 2]);
    const [onFirst, , , alsoOnFirst, onOther] = starts.map(({ runner }) => runner);
    expect(alsoOnFirst).toBe(onFirst);
    expect(onOther).not.toBe(onFirst);

    const again = runners.conversations(second).filter((text) => timesIn(text, secondAttempt) > 1);
    expect(again[0]).toContain('Paint the wall.');
    expect(again[0]).toContain('Cleaned up.');
    // The work of the killed run was never saved.
    expect(timesIn(again[0] ?? '', 'Put on another.')).toBe(1);
    expect(again.at(-1)).toContain('here is red');
    expect(existsSync(inWorkspace(other, savedKey, 'paint.txt'))).toBe(true);
    expect(existsSync(inWorkspace(other, savedKey, 'wet.txt'))).toBe(true);
    expect(await agents.warnings(saved)).toEqual([
      expect.stringMatching(/^The work was restored from the checkpoint of .* \(run 3\)/),
    ]);
    expect(leftOfRuns(other)).toEqual([]);
  });
});
