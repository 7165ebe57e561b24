import { readFileSync } from 'node:fs';
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
      capabilities: ['deferral', 'steer'],
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

describe('drain', () => {
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
