import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import {
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
  writtenDown,
} from './crew.ts';
import { backends, type Fleet, startFleet } from './fleet.ts';

let fleet: Fleet;
beforeAll(async () => {
  fleet = await startFleet({ runner: false, env: shortLease });
});
afterAll(() => fleet.close());

const gone = (agentKey: string): Promise<string[]> =>
  until(
    'the last process of the agent gone',
    async () => processesWith(agentKey),
    (pids) => pids.length === 0,
    patienceMs,
  );

describe.each(backends)('$title, when its runner is killed', { timeout: 150_000 }, ({ model }) => {
  it('goes on in the same session and the same workspace when the runner comes back', async () => {
    const crew = await Crew.gather(fleet);
    const { agents, remote } = crew;
    const marker = fleet.stub.script([
      { shell: 'echo the brush is $((40 + 2)) wide' },
      {
        shell:
          'test -e paint.txt && echo found $(cat paint.txt) || { echo red > paint.txt; tail -f paint.txt; }',
      },
      { shell: 'git add --all && git commit --quiet --message Paint && git push' },
      { say: 'Painted.' },
    ]);
    const behind = fleet.stub.script([{ say: 'Cleaned up.' }]);
    const before = await crew.runner();
    await agents.spawn('painter', { model, description: `Paint the wall. ${marker}` });
    const agentKey = await onlyAgentOn(before);
    const paint = inWorkspace(before, agentKey, 'paint.txt');
    await until('the paint', async () => existsSync(paint), Boolean, patienceMs);
    await writtenDown(before, agentKey, 'the brush is 42 wide');
    await agents.queue('painter', { followUpId: 'behind', description: `Clean up. ${behind}` });
    expect(processesWith(agentKey)).not.toEqual([]);

    await before.kill();
    await gone(agentKey);
    await crew.lost('painter');
    const after = await crew.runner({}, before.folder);
    const status = await crew.rested('painter');

    expect(status).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      phaseReason: 'RESTING',
      response: 'Cleaned up.',
      error: null,
    });
    expect(await crew.outcomes('painter')).toEqual(['LOST', 'COMPLETED', 'COMPLETED']);
    const starts = await crew.starts('painter');
    expect(starts.map(({ attempt, batch }) => [attempt, batch])).toEqual([
      [1, '1'],
      [2, '1'],
      [1, '3'],
    ]);
    expect(new Set(starts.map(({ runner }) => runner)).size).toBe(1);

    const again = crew.shown(marker).filter((text) => text.includes(secondTry));
    expect(timesIn(again[0] ?? '', 'Paint the wall.')).toBe(2);
    expect(again[0]).toContain('the brush is 42 wide');
    expect(again.at(-1)).toContain('found red');
    expect(crew.shown(marker).filter((text) => timesIn(text, 'Paint the wall.') === 1)).toHaveLength(2);
    expect(remote.git('show', `${status.branch}:paint.txt`)).toBe('red');

    const [cleaning = ''] = crew.shown(behind);
    expect(cleaning).toContain('Painted.');
    expect(timesIn(cleaning, 'Clean up.')).toBe(1);
    expect(timesIn(cleaning, secondTry)).toBe(1);
    const delivered = await agents.timeline('painter', 'FOLLOW_UP_DELIVERED');
    expect(delivered.map(({ followUpId, runId }) => [followUpId, runId])).toEqual([['behind', '3']]);
    expect(await crew.warnings('painter')).toEqual([]);
    expect(leftOfRuns(after)).toEqual([]);
    expect(processesWith(agentKey)).toEqual([]);
  });

  it('goes on elsewhere from the session that was saved and the branch that was pushed', async () => {
    const crew = await Crew.gather(fleet);
    const { agents } = crew;
    const first = fleet.stub.script([
      { write: { path: 'wall.txt', text: 'one coat\n' } },
      { shell: 'git add --all && git commit --quiet --message "First coat" && git push' },
      { shell: 'echo wet > wet.txt' },
      { say: 'The first coat is on.' },
    ]);
    const { promise, release } = held();
    const second = fleet.stub.script([
      { shell: 'echo the ladder is $((40 + 3)) high' },
      { until: promise },
      { shell: 'echo here is $(cat wall.txt); ls' },
      { say: 'The second coat is on.' },
    ]);
    const here = await crew.runner();
    await agents.spawn('painter', { model, description: `Put on a coat. ${first}` });
    await crew.rested('painter');
    const there = await crew.runner();
    await agents.queue('painter', `Put on another. ${second}`);
    await crew.asked(second, 2);
    const agentKey = await onlyAgentOn(here);
    expect(processesWith(agentKey)).not.toEqual([]);

    await here.kill();
    await gone(agentKey);
    release();
    await until(
      'the other runner at it',
      () => crew.starts('painter'),
      ({ length }) => length === 3,
      patienceMs,
    );
    const status = await crew.rested('painter');

    expect(status).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      response: 'The second coat is on.',
      error: null,
    });
    expect(await crew.outcomes('painter')).toEqual(['COMPLETED', 'LOST', 'COMPLETED']);
    const [one, two, three] = await crew.starts('painter');
    expect([one?.attempt, two?.attempt, three?.attempt]).toEqual([1, 1, 2]);
    expect(two?.runner).toBe(one?.runner);
    expect(three?.runner).not.toBe(two?.runner);

    const again = crew.shown(second).filter((text) => text.includes(secondTry));
    expect(again[0]).toContain('Put on a coat.');
    expect(again[0]).toContain('The first coat is on.');
    // What the killed run did was never saved.
    expect(timesIn(again[0] ?? '', 'Put on another.')).toBe(1);
    expect(again.at(-1)).toContain('here is one coat');
    expect(existsSync(inWorkspace(there, agentKey, 'wall.txt'))).toBe(true);
    expect(existsSync(inWorkspace(there, agentKey, 'wet.txt'))).toBe(true);
    expect(await crew.warnings('painter')).toEqual([
      expect.stringMatching(/^The work was restored from the checkpoint of .* \(run 1\)/),
    ]);
    expect(leftOfRuns(there)).toEqual([]);
  });

  it('begins anew elsewhere, and says so, when nothing had been saved', async () => {
    const crew = await Crew.gather(fleet);
    const { promise, release } = held();
    const marker = fleet.stub.script([{ shell: 'echo begun' }, { until: promise }, { say: 'Painted.' }]);
    const here = await crew.runner();
    await crew.agents.spawn('painter', { model, description: `Paint the wall. ${marker}` });
    await crew.asked(marker, 2);
    await crew.runner();

    await here.kill();
    await gone(await onlyAgentOn(here));
    release();
    const status = await crew.rested('painter');

    expect(status).toMatchObject({ phase: 'PHASE_WAITING_FOR_INPUT', response: 'Painted.', error: null });
    expect(await crew.outcomes('painter')).toEqual(['LOST', 'COMPLETED']);
    expect((await crew.starts('painter')).map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(await crew.warnings('painter')).toEqual([
      'The earlier runs were on another runner and saved no checkpoint. This run starts a new session from the pushed branch.',
    ]);
    const again = crew.shown(marker).filter((text) => text.includes(secondTry));
    expect(timesIn(again[0] ?? '', 'Paint the wall.')).toBe(1);
  });
});
