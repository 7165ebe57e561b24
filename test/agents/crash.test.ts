import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import {
  inSessionFile,
  inWorkspace,
  leftOfRuns,
  onlyAgentOn,
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

describe.each(backends)('$title, when its runner is killed', { timeout: 150_000 }, ({ model }) => {
  it('continues in the same session and workspace when the runner comes back', async () => {
    const runners = await TestRunners.create(service());
    const { agents, remote } = runners;
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
    const before = await runners.start();
    await agents.spawn('painter', { model, description: `Paint the wall. ${marker}` });
    const agentKey = await onlyAgentOn(before);
    const paint = inWorkspace(before, agentKey, 'paint.txt');
    await until('the paint', async () => existsSync(paint), Boolean, patienceMs);
    await inSessionFile(before, agentKey, 'the brush is 42 wide');
    await agents.queue('painter', { followUpId: 'next', description: `Clean up. ${next}` });
    expect(processesWith(agentKey)).not.toEqual([]);

    await before.kill();
    await processesGone(agentKey);
    await runners.lost('painter');
    const after = await runners.start({}, before.folder);
    const status = await agents.idle('painter');

    expect(status).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      phaseReason: 'RESTING',
      response: 'Cleaned up.',
      error: null,
    });
    expect(await agents.outcomes('painter')).toEqual(['LOST', 'COMPLETED', 'COMPLETED']);
    const starts = await runners.starts('painter');
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
    const delivered = await agents.timeline('painter', 'FOLLOW_UP_DELIVERED');
    expect(delivered.map(({ followUpId, runId }) => [followUpId, runId])).toEqual([['next', '3']]);
    expect(await agents.warnings('painter')).toEqual([]);
    expect(leftOfRuns(after)).toEqual([]);
    expect(processesWith(agentKey)).toEqual([]);
  });

  it('starts again on another runner if nothing was saved, else continues from the saved session and the pushed branch', async () => {
    const runners = await TestRunners.create(service());
    const { agents } = runners;
    const starting = gate();
    const first = service().script(
      { shell: 'echo begun' },
      { until: starting.promise },
      { write: { path: 'wall.txt', text: 'one coat\n' } },
      { shell: 'git add --all && git commit --quiet --message "First coat" && git push' },
      { shell: 'echo wet > wet.txt' },
      { say: 'The first coat is on.' },
    );
    const one = await runners.start();
    await agents.spawn('painter', { model, description: `Put on a coat. ${first}` });
    await service().asked(first, 2);
    const two = await runners.start();
    const agentKey = await onlyAgentOn(one);
    expect(processesWith(agentKey)).not.toEqual([]);

    await one.kill();
    await processesGone(agentKey);
    starting.open();
    expect(await agents.idle('painter')).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      response: 'The first coat is on.',
      error: null,
    });
    const nothingSaved =
      'The earlier runs were on another runner and saved no checkpoint. This run starts a new session from the pushed branch.';
    expect(await agents.warnings('painter')).toEqual([nothingSaved]);
    const started = runners.conversations(first).filter((text) => text.includes(secondAttempt));
    expect(timesIn(started[0] ?? '', 'Put on a coat.')).toBe(1);

    const waiting = gate();
    const second = service().script(
      { shell: 'echo the ladder is $((40 + 3)) high' },
      { until: waiting.promise },
      { shell: 'echo here is $(cat wall.txt); ls' },
      { say: 'The second coat is on.' },
    );
    await agents.queue('painter', `Put on another. ${second}`);
    await service().asked(second, 2);
    const three = await runners.start();
    await two.kill();
    await processesGone(agentKey);
    waiting.open();
    expect(await agents.runEnded('painter', 4)).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      response: 'The second coat is on.',
      error: null,
    });

    expect(await agents.outcomes('painter')).toEqual(['LOST', 'COMPLETED', 'LOST', 'COMPLETED']);
    const starts = await runners.starts('painter');
    expect(starts.map(({ attempt }) => attempt)).toEqual([1, 2, 1, 2]);
    const [onOne, onTwo, alsoOnTwo, onThree] = starts.map(({ runner }) => runner);
    expect(alsoOnTwo).toBe(onTwo);
    expect(new Set([onOne, onTwo, onThree]).size).toBe(3);

    const again = runners
      .conversations(second)
      .filter((text) => timesIn(text, secondAttempt) > timesIn(started[0] ?? '', secondAttempt));
    expect(again[0]).toContain('Put on a coat.');
    expect(again[0]).toContain('The first coat is on.');
    // The work of the killed run was never saved.
    expect(timesIn(again[0] ?? '', 'Put on another.')).toBe(1);
    expect(again.at(-1)).toContain('here is one coat');
    expect(existsSync(inWorkspace(three, agentKey, 'wall.txt'))).toBe(true);
    expect(existsSync(inWorkspace(three, agentKey, 'wet.txt'))).toBe(true);
    expect(await agents.warnings('painter')).toEqual([
      nothingSaved,
      expect.stringMatching(/^The work was restored from the checkpoint of .* \(run 2\)/),
    ]);
    expect(leftOfRuns(three)).toEqual([]);
  });
});
