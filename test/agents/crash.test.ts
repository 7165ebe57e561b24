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
import { backends, gate, patienceMs, processesWith, timesIn, useTestService } from './test-service.ts';

const service = useTestService(withoutRunner);

const processesGone = (agentKey: string): Promise<string[]> =>
  until(
    'the last process of the agent gone',
    async () => processesWith(agentKey),
    (pids) => pids.length === 0,
    patienceMs,
  );

describe('when their runner is killed, Claude Code and Codex', { timeout: 150_000 }, () => {
  it('continue in the same session and workspace when the runner comes back', async () => {
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
  });

  it('start again on another runner if nothing was saved, else continue from the saved session and the pushed branch', async () => {
    const runners = await TestRunners.create(service());
    const { agents } = runners;
    const starting = gate();
    const one = await runners.start();
    const painters = await Promise.all(
      backends.map(async ({ name, model }) => {
        const first = service().script(
          { shell: 'echo begun' },
          { until: starting.promise },
          { write: { path: 'wall.txt', text: 'one coat\n' } },
          { shell: 'git add --all && git commit --quiet --message "First coat" && git push' },
          { shell: 'echo wet > wet.txt' },
          { say: 'The first coat is on.' },
        );
        await agents.spawn(name, { model, description: `Put on a coat. ${first}` });
        await service().asked(first, 2);
        const key = await runners.keyOf(name);
        expect(processesWith(key)).not.toEqual([]);
        return { name, key, first };
      }),
    );
    const two = await runners.start();

    await one.kill();
    for (const { key } of painters) await processesGone(key);
    starting.open();
    const nothingSaved =
      'The earlier runs were on another runner and saved no checkpoint. This run starts a new session from the pushed branch.';
    for (const { name, first } of painters) {
      expect(await agents.idle(name)).toMatchObject({
        phase: 'PHASE_WAITING_FOR_INPUT',
        response: 'The first coat is on.',
        error: null,
      });
      expect(await agents.warnings(name)).toEqual([nothingSaved]);
      const [started = ''] = runners.conversations(first).filter((text) => text.includes(secondAttempt));
      expect(timesIn(started, 'Put on a coat.')).toBe(1);
      expect(timesIn(started, secondAttempt)).toBe(1);
    }

    const waiting = gate();
    const seconds = await Promise.all(
      painters.map(async ({ name }) => {
        const second = service().script(
          { shell: 'echo the ladder is $((40 + 3)) high' },
          { until: waiting.promise },
          { shell: 'echo here is $(cat wall.txt); ls' },
          { say: 'The second coat is on.' },
        );
        await agents.queue(name, `Put on another. ${second}`);
        await service().asked(second, 2);
        return second;
      }),
    );
    const three = await runners.start();
    await two.kill();
    for (const { key } of painters) await processesGone(key);
    waiting.open();
    for (const [i, { name, key }] of painters.entries()) {
      expect(await agents.runEnded(name, 4)).toMatchObject({
        phase: 'PHASE_WAITING_FOR_INPUT',
        response: 'The second coat is on.',
        error: null,
      });
      expect(await agents.outcomes(name)).toEqual(['LOST', 'COMPLETED', 'LOST', 'COMPLETED']);
      const starts = await runners.starts(name);
      expect(starts.map(({ attempt }) => attempt)).toEqual([1, 2, 1, 2]);
      const [onOne, onTwo, alsoOnTwo, onThree] = starts.map(({ runner }) => runner);
      expect(alsoOnTwo).toBe(onTwo);
      expect(new Set([onOne, onTwo, onThree]).size).toBe(3);

      const again = runners
        .conversations(seconds[i] ?? '')
        .filter((text) => timesIn(text, secondAttempt) > 1);
      expect(again[0]).toContain('Put on a coat.');
      expect(again[0]).toContain('The first coat is on.');
      // The work of the killed run was never saved.
      expect(timesIn(again[0] ?? '', 'Put on another.')).toBe(1);
      expect(again.at(-1)).toContain('here is one coat');
      expect(existsSync(inWorkspace(three, key, 'wall.txt'))).toBe(true);
      expect(existsSync(inWorkspace(three, key, 'wet.txt'))).toBe(true);
      expect(await agents.warnings(name)).toEqual([
        nothingSaved,
        expect.stringMatching(/^The work was restored from the checkpoint of .* \(run 2\)/),
      ]);
    }
    expect(leftOfRuns(three)).toEqual([]);
  });
});
