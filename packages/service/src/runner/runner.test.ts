import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PollRequest } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../../test/support/async.ts';
import { RunnerFixture } from '../../../../test/support/fake-service.ts';

const fixture = new RunnerFixture();

describe('polling', () => {
  it('claims no more runs than its limit, and polls again immediately when a slot becomes free', async () => {
    fixture.start({ limits: { rehearsedRunsPerRunner: 1 } });
    const claims = [1, 2, 3].map((n) => fixture.service.offer(`!say ${n}`));
    await Promise.all(claims.map((claim) => fixture.ended(claim)));
    for (const poll of fixture.service.polls) expect(poll.runs.length).toBeLessThanOrEqual(1);
    expect(fixture.service.polls.map((poll) => poll.poll)).toEqual(
      fixture.service.polls.map((_, i) => i + 1),
    );
    expect(fixture.service.polls[0]).toMatchObject({
      name: 'one',
      rehearses: true,
      capabilities: ['deferral', 'steer', 'undrain'],
    });
  });

  it('starts a claim once, also if the reply was lost or the claim is sent again', async () => {
    let cuts = 0;
    const claim = fixture.service.offer('!run echo x >> count; touch ready');
    fixture.service.fault = (path) => (path === '/v1/runner/poll' && cuts++ < 2 ? 'cut' : undefined);
    fixture.start();
    await fixture.ended(claim);
    expect(readFileSync(join(fixture.workspaceOf(claim), 'count'), 'utf8')).toBe('x\n');
  });

  it('registers again under a new id when the service refuses the old one and its lease has expired', async () => {
    fixture.service.leaseMs = 1_000;
    const runner = fixture.start();
    await runner.registered;
    const first = runner.runnerId;
    fixture.service.fault = (_, body) => ((body as PollRequest).runnerId === first ? 403 : undefined);
    // Only the first lease is meant to be lost.
    fixture.service.leaseMs = 3_600_000;
    await eventually(() => expect(fixture.service.polls.at(-1)?.runnerId).not.toBe(first));
    const again = fixture.service.polls.filter(({ runnerId }) => runnerId !== first);
    expect(again[0]).toMatchObject({ name: 'one', poll: 1, runnerId: runner.runnerId });
    const claim = fixture.service.offer('!say served');
    await fixture.ended(claim);
    expect(fixture.service.reportsOf(claim)[0]?.runnerId).toBe(runner.runnerId);
  });

  it('kills every session when no poll has succeeded for the length of a lease', async () => {
    fixture.service.leaseMs = 1500;
    fixture.start();
    const claim = fixture.service.offer('!run echo $$ > pid; touch ready; sleep 600');
    await fixture.started(claim);
    expect(fixture.isAlive(claim)).toBe(true);
    fixture.service.fault = () => 503;
    await eventually(() => expect(fixture.isAlive(claim)).toBe(false));
    fixture.service.fault = () => undefined;
    const before = fixture.service.polls.length;
    await eventually(() => expect(fixture.service.polls.length).toBeGreaterThan(before));
    expect(fixture.service.polls.at(-1)?.runs).toEqual([]);
    expect(fixture.service.endOf(claim)).toBeUndefined();
  });
});

describe('a lease', () => {
  it('is extended by reports while polls fail', async () => {
    fixture.service.leaseMs = 4000;
    fixture.service.reportsExtend = true;
    fixture.start();
    const steps = '!say next\n!sleep 0.1\n'.repeat(50);
    const claim = fixture.service.offer(`!run touch ready\n${steps}!say done`);
    await fixture.started(claim);
    fixture.service.fault = (path) => (path === '/v1/runner/poll' ? 503 : undefined);
    await fixture.ended(claim);
    expect(fixture.service.textsOf(claim, 'MESSAGE').at(-1)).toBe('done');
  });

  it('does not end because one poll is slow: the next one is sent immediately and asks for no wait', async () => {
    fixture.start();
    await eventually(() => expect(fixture.service.polls.length).toBeGreaterThan(1));
    const polls: (number | undefined)[] = [];
    fixture.service.fault = (path, body) => {
      if (path !== '/v1/runner/poll') return undefined;
      polls.push((body as PollRequest).waitMs);
      return polls.length === 1 ? 503 : undefined;
    };
    fixture.service.offer('!say x');
    await eventually(() => expect(polls.length).toBeGreaterThan(2));
    expect(polls[1]).toBe(0);
    expect(polls[2]).toBeGreaterThan(0);
  });
});

describe('what a lost run used', () => {
  const usage = { inputTokens: 10, cachedInputTokens: 2, outputTokens: 3, costUsd: 0.5 };

  it('is reported by the next process of the runner, with the number of lost items', async () => {
    const first = fixture.start();
    const claim = fixture.service.offer(
      '!run touch ready\n!sleep 1\n!usage 10 2 3 0.5\n!say lost\n!sleep 600',
    );
    await fixture.started(claim);
    fixture.service.fault = (path) => (path === '/v1/runner/report' ? 503 : undefined);
    const note = join(fixture.dataFolder, 'usage', `${claim.agentKey}-1.json`);
    await eventually(() => expect(JSON.parse(readFileSync(note, 'utf8'))).toMatchObject({ usage }));
    await eventually(() => expect(JSON.parse(readFileSync(note, 'utf8')).unreported).toBeGreaterThan(0));
    await first.abandon();
    fixture.service.fault = () => undefined;
    fixture.start();
    const late = () => fixture.service.reports.flatMap((report) => (report.late ? [report.late] : []));
    await eventually(() => expect(late()).toEqual([{ usage }, { missing: expect.any(Number) }]));
    await eventually(() => expect(existsSync(note)).toBe(false));
  });

  it('is reported when the lease was lost, with the items that were not acknowledged', async () => {
    fixture.service.leaseMs = 1500;
    fixture.start();
    const claim = fixture.service.offer(
      '!run touch ready\n!sleep 0.5\n!usage 10 2 3 0.5\n!say unsent\n!sleep 600',
    );
    await fixture.started(claim);
    let isDown = true;
    let listed: unknown[] = [claim];
    fixture.service.fault = (path, body) => {
      if (path === '/v1/runner/poll') listed = (body as PollRequest).runs;
      return isDown && path !== '/v1/runner/credit' ? 503 : undefined;
    };
    const note = join(fixture.dataFolder, 'usage', `${claim.agentKey}-1.json`);
    await eventually(() => expect(readFileSync(note, 'utf8')).toContain('"costUsd":0.5'));
    await eventually(() => expect(listed).toEqual([]));
    isDown = false;
    const late = () => fixture.service.reports.filter((report) => report.late);
    await eventually(() => expect(late()[0]?.late).toEqual({ usage }));
    await eventually(() =>
      expect(late().flatMap((report) => report.items ?? [])).toContainEqual(
        expect.objectContaining({ type: 'MESSAGE', text: 'unsent' }),
      ),
    );
  });
});

describe('drain', () => {
  it('claims nothing more and lets runs end first, if it is given time', async () => {
    const runner = fixture.start({ drainMs: 3_600_000 });
    const claim = fixture.service.offer(
      '!run touch ready; while [ ! -e go ]; do sleep 0.05; done\n!say done',
    );
    await fixture.started(claim);
    const drained = runner.drain();
    const next = fixture.service.offer('!say never');
    await eventually(() => expect(fixture.service.polls.at(-1)).toMatchObject({ leaving: true }));
    expect(fixture.service.polls.at(-1)?.free).toEqual({ real: 0, rehearsed: 0 });
    writeFileSync(join(fixture.workspaceOf(claim), 'go'), '');
    await drained;
    expect(fixture.service.endOf(claim)).toMatchObject({ outcome: 'COMPLETED', response: 'done' });
    expect(fixture.service.reportsOf(next)).toEqual([]);
  });

  it('hands back what has not ended in that time', async () => {
    const runner = fixture.start({ drainMs: 100 });
    const claim = fixture.service.offer('!run touch ready; sleep 600');
    await fixture.started(claim);
    await runner.drain();
    expect(fixture.service.endOf(claim)).toEqual({ outcome: 'HANDED_BACK' });
  });

  it('begins when the service asks for it', async () => {
    const runner = fixture.start();
    const claim = fixture.service.offer('!run touch ready; sleep 600');
    await fixture.started(claim);
    fixture.service.drains = true;
    // In the same reply.
    const next = fixture.service.offer('!say never');
    await runner.ended;
    expect(fixture.service.endOf(next)).toEqual({ outcome: 'HANDED_BACK' });
    expect(fixture.service.endOf(claim)).toEqual({ outcome: 'HANDED_BACK' });
    expect(fixture.service.polls.at(-1)).toMatchObject({ leaving: true, runs: [] });
  });

  it('ends when the service asks for that, before runs are handed back', async () => {
    const runner = fixture.start({ drainMs: 3_600_000 });
    const claim = fixture.service.offer(
      '!run touch ready; while [ ! -e go ]; do sleep 0.05; done\n!say done',
    );
    await fixture.started(claim);
    fixture.service.drains = true;
    await eventually(() =>
      expect(fixture.service.polls.at(-1)).toMatchObject({
        leaving: true,
        capabilities: expect.arrayContaining(['undrain']),
      }),
    );
    Object.assign(fixture.service, { drains: false, undrains: true });
    await eventually(() => expect(fixture.service.polls.at(-1)).toMatchObject({ leaving: false }));
    fixture.service.undrains = false;
    const next = fixture.service.offer('!say next');
    await eventually(() => expect(fixture.service.endOf(next)).toMatchObject({ outcome: 'COMPLETED' }));
    writeFileSync(join(fixture.workspaceOf(claim), 'go'), '');
    await eventually(() => expect(fixture.service.endOf(claim)).toMatchObject({ response: 'done' }));
    // One that leaves for another reason is not asked back.
    const drained = runner.drain();
    fixture.service.undrains = true;
    await drained;
    expect(fixture.service.polls.at(-1)?.capabilities).not.toContain('undrain');
  });

  it('begins after the given number of runs, which end, and more are handed back', async () => {
    const runner = fixture.start({ maxRuns: 2 });
    const claims = [1, 2, 3].map((n) => fixture.service.offer(`!say ${n}`));
    await runner.ended;
    const outcomes = claims.map((claim) => fixture.service.endOf(claim)?.outcome);
    expect(outcomes.filter((outcome) => outcome === 'COMPLETED')).toHaveLength(2);
    expect(outcomes).not.toContain('FAILED');
    for (const { free } of fixture.service.polls) expect(free.rehearsed).toBeLessThanOrEqual(2);
  });

  it('begins when the runner has been idle, and not during a run', async () => {
    const runner = fixture.start({ idleExitMs: 500 });
    const claim = fixture.service.offer('!sleep 1\n!say done');
    await runner.ended;
    expect(fixture.service.endOf(claim)).toMatchObject({ outcome: 'COMPLETED', response: 'done' });
    expect(fixture.service.polls.at(-1)).toMatchObject({ leaving: true, runs: [] });
  });

  it('does not begin while a poll may still bring a run', async () => {
    const runner = fixture.start({ idleExitMs: 200 });
    await runner.registered;
    let release = (): void => {};
    fixture.service.held = new Promise((resolve) => {
      release = resolve;
    });
    const polls = fixture.service.polls.length;
    await eventually(() => expect(fixture.service.polls.length).toBeGreaterThan(polls));
    const claim = fixture.service.offer('!say done');
    // Longer than it may be idle.
    setTimeout(release, 600);
    await runner.ended;
    expect(fixture.service.endOf(claim)).toMatchObject({ outcome: 'COMPLETED' });
    for (const { runs, waitMs } of fixture.service.polls.slice(1))
      if (runs.length === 0) expect(waitMs).toBeLessThanOrEqual(200);
  });

  it('hands live runs back, unregisters, and ends', async () => {
    const runner = fixture.start();
    const claim = fixture.service.offer('!say x\n!run echo $$ > pid; touch ready; sleep 600');
    await fixture.started(claim);
    await runner.drain();
    expect(fixture.service.endOf(claim)).toEqual({ outcome: 'HANDED_BACK' });
    expect(fixture.service.textsOf(claim, 'MESSAGE')).toEqual(['x']);
    expect(fixture.service.polls.at(-1)).toMatchObject({
      leaving: true,
      runs: [],
      free: { real: 0, rehearsed: 0 },
    });
    expect(fixture.isAlive(claim)).toBe(false);
  });

  it('does not wait for a running setup', async () => {
    const runner = fixture.start({ limits: { handBackMs: 3_600_000 } });
    const setup = ['echo $$ > pid; touch ready; sleep 600'];
    const claim = fixture.service.offer('!say never', {
      workspace: { document: {}, environment: { setup }, environmentVersion: '', vmProfile: {} },
    });
    await fixture.started(claim);
    await runner.drain();
    expect(fixture.service.endOf(claim)).toEqual({ outcome: 'HANDED_BACK' });
    expect(fixture.isAlive(claim)).toBe(false);
  });

  it('ends also when the service is unavailable', async () => {
    const runner = fixture.start();
    await eventually(() => expect(fixture.service.polls.length).toBeGreaterThan(0));
    fixture.service.fault = () => 503;
    await runner.drain();
  });

  it('abandon kills the runs and reports nothing', async () => {
    const runner = fixture.start();
    const claim = fixture.service.offer('!run echo $$ > pid; touch ready; sleep 600');
    await fixture.started(claim);
    await runner.abandon();
    const reports = fixture.service.reports.length;
    expect(fixture.isAlive(claim)).toBe(false);
    expect(fixture.service.endOf(claim)).toBeUndefined();
    expect(fixture.service.reports).toHaveLength(reports);
  });
});
