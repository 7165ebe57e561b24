import { describe, expect, test } from 'vitest';
import type { Fields } from '../support/agents.ts';
import { createKey, deleteResource, uniqueName } from '../support/catalog.ts';
import { TestSchedule } from '../support/schedules.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const { api, databaseUrl } = await useSharedServer({ runner: false });

const write = (document: Fields, as = api) => TestSchedule.write(as, databaseUrl, document, api);

/** A schedule with a message to the idle agent `a`. */
async function telling(document: Fields = {}): Promise<{ t: TestTenant; schedule: TestSchedule }> {
  const t = await newTestTenant(api);
  await t.rested('a');
  return { t, schedule: await write({ agentId: t.id('a'), message: 'wake up', ...document }) };
}

async function spawning(document: Fields = {}, path = ['agent-{n}']) {
  const t = await newTestTenant(api);
  const spawn = {
    agentId: { workspace: t.workspace, agent: path },
    description: 'work',
    model: 'rehearsal-a',
  };
  return { t, schedule: await write({ spawn, ...document }) };
}

describe('a fire', () => {
  test('sends the message, and says so in the history and beside the document', async () => {
    const { t, schedule } = await telling();
    const fire = await schedule.fires();
    const { workspace } = t;
    expect(fire).toMatchObject({ outcome: 'FIRED', reason: '', times: 1, manual: false });
    expect(fire).toMatchObject({ scheduledAt: schedule.time(0), agentId: { agent: ['a'], workspace } });
    expect(await t.followUpIds('a')).toEqual([fire.followUpId]);
    const { nextRuns, lastRun, pausedReason } = await schedule.document();
    expect(lastRun).toEqual({ at: fire.at, outcome: 'FIRED', reason: '' });
    expect(nextRuns).toEqual([-1, -2, -3, -4, -5].map((hours) => schedule.time(hours)));
    expect(pausedReason).toBe('');
    const claim = await t.start('a');
    expect(JSON.stringify(claim)).toContain('wake up');
  });

  test('spawns an agent, whose path has the date and a number', async () => {
    const { t, schedule } = await spawning({}, ['daily-{date}-{n}']);
    const [first, second] = [await schedule.fires(), await schedule.run()];
    const date = schedule.time(0).slice(0, 10);
    expect(first).toMatchObject({
      outcome: 'FIRED',
      agentId: { agent: [`daily-${date}-1`] },
      followUpId: '',
    });
    expect(await t.phase(`daily-${date}-1`)).toContain('PENDING');
    expect(second.body).toMatchObject({ outcome: 'SKIPPED', manual: true });
    await t.kill(`daily-${date}-1`);
    expect((await schedule.run()).body).toMatchObject({
      outcome: 'FIRED',
      agentId: { agent: [`daily-${date}-2`] },
    });
  });

  test('of the same time happens once, however often it is tried', async () => {
    const { t, schedule } = await telling({ overlap: 'allow' });
    await schedule.fires();
    await schedule.due();
    await expect
      .poll(async () => (await schedule.document()).nextRuns, { timeout: 40_000 })
      .toEqual([-1, -2, -3, -4, -5].map((hours) => schedule.time(hours)));
    expect(await schedule.history()).toHaveLength(1);
    expect(await t.followUpIds('a')).toHaveLength(1);
  });
});

describe('times that were missed', () => {
  const day = 24;

  test('latest: the last one fires, and says how late it is', async () => {
    const { schedule } = await telling();
    await schedule.due(day);
    const outcomes = await schedule.outcomes(2);
    expect(outcomes[1]).toBe('SKIPPED missed: the service did not run; 24 times were skipped');
    expect(outcomes[0]).toBe('FIRED');
    expect(await schedule.history()).toMatchObject([
      { scheduledAt: schedule.time(0) },
      { scheduledAt: schedule.time(day), times: day },
    ]);
  });

  test('skip: none fires', async () => {
    const { t, schedule } = await telling({ missed: 'skip' });
    await schedule.due(3);
    const [outcome] = await schedule.outcomes(1);
    expect(outcome).toMatch(/^(SKIPPED missed: the service did not run; [34] times were skipped|FIRED)$/);
    expect((await schedule.history()).at(-1)).toMatchObject({ scheduledAt: schedule.time(3) });
    expect((await t.followUpIds('a')).length).toBeLessThanOrEqual(1);
  });

  test('all: the last 24 fire, in order', async () => {
    const { t, schedule } = await telling({ missed: 'all', overlap: 'allow' });
    await schedule.due(100);
    const outcomes = await schedule.outcomes(25);
    expect(outcomes.at(-1)).toBe('SKIPPED missed: the service did not run; 77 times were skipped');
    expect(outcomes.at(-2)).toMatch(/^FIRED late by 23 h.*: the service did not run$/);
    expect(await t.followUpIds('a')).toEqual(
      (await schedule.history())
        .slice(0, 24)
        .map(({ followUpId }) => followUpId)
        .reverse(),
    );
  });
});

describe('while its agent is busy', () => {
  test('queue: one message waits, and no more', async () => {
    const { t, schedule } = await telling();
    await t.queue('a', 'more');
    await t.start('a');
    expect((await schedule.run()).body).toMatchObject({ outcome: 'FIRED' });
    expect(await schedule.fires()).toMatchObject({
      outcome: 'SKIPPED',
      reason: 'the message of an earlier time still waits',
    });
    expect(await t.followUpIds('a')).toHaveLength(1);
  });

  test('skip: the fire is skipped', async () => {
    const { t, schedule } = await telling({ overlap: 'skip' });
    await t.queue('a', 'more');
    await t.start('a');
    expect(await schedule.fires()).toMatchObject({ outcome: 'SKIPPED', reason: 'the agent is still busy' });
    expect(await t.followUpIds('a')).toEqual([]);
  });

  test('replace: the turn is stopped, and messages of others stay', async () => {
    const { t, schedule } = await telling({ overlap: 'replace' });
    await t.queue('a', 'more');
    const run = await t.start('a');
    await t.queue('a', { description: 'of a person', followUpId: 'mine' });
    const fire = await schedule.fires();
    expect(await t.stops()).toEqual([`${run.runId} INTERRUPT`]);
    expect(await t.followUpIds('a')).toEqual(['mine', fire.followUpId]);
  });

  test('allow: every fire is a message', async () => {
    const { t, schedule } = await telling({ overlap: 'allow' });
    await schedule.run();
    await schedule.fires();
    expect(await t.followUpIds('a')).toHaveLength(2);
  });

  test('a budget or a limit of a provider parks the work, also with skip', async () => {
    const { t, schedule } = await telling({ overlap: 'skip' });
    await t.queue('a', 'more');
    const run = await t.start('a');
    await t.end(run, 'PARKED', { limitUntil: new Date(Date.now() + 3_600_000).toISOString() });
    expect(await t.phase('a')).toBe('PENDING/PROVIDER_LIMIT');
    expect(await schedule.fires()).toMatchObject({ outcome: 'FIRED' });
    expect(await t.followUpIds('a')).toHaveLength(1);
  });

  test('queue: a new agent waits until the one before is idle, and other times are skipped', async () => {
    const { t, schedule } = await spawning();
    await schedule.run();
    const run = await t.start('agent-1');
    await schedule.due();
    await expect
      .poll(() => schedule.query('SELECT is_waiting FROM schedules WHERE name = $1'), { timeout: 40_000 })
      .toEqual([{ is_waiting: true }]);
    await t.end(run);
    // As if it had waited for three hours.
    await schedule.due(3);
    const outcomes = await schedule.outcomes(3);
    expect(outcomes[0]).toBe('SKIPPED the work of an earlier time still waited');
    expect(outcomes[1]).toMatch(/^FIRED late by 3 h.*: it waited for the agent of an earlier time$/);
    expect(await t.phase('agent-2')).toContain('PENDING');
  });

  test('replace: the turn of the agent before is stopped', async () => {
    const { t, schedule } = await spawning({ overlap: 'replace' });
    await schedule.run();
    const run = await t.start('agent-1');
    await schedule.fires();
    expect(await t.phase('agent-2')).toContain('PENDING');
    expect(await t.stops()).toEqual([`${run.runId} INTERRUPT`]);
  });
});

describe('it acts as its creator', () => {
  test('and is paused when that account may no longer', async () => {
    const t = await newTestTenant(api);
    const account = uniqueName('member');
    const { api: member, name: token } = await createKey(api, { role: 'member', account });
    const agentId = { agent: ['own'], workspace: t.workspace };
    await member.post('/v1/agent/spawn', { agentId, description: 'work', model: 'rehearsal-a' });
    const schedule = await write({ agentId, message: 'hello' }, member);
    // A later change by somebody else does not change who it acts as.
    await schedule.change({ jitterSeconds: 0 });
    expect((await schedule.run()).body).toMatchObject({ outcome: 'FIRED', agentId: { account } });
    await deleteResource(api, 'token', token);
    const reason = `the account codehost_oauth/${account} has no valid key in this tenant`;
    expect(await schedule.fires()).toMatchObject({ outcome: 'SKIPPED', reason });
    expect(await schedule.document()).toMatchObject({ pausedReason: reason, nextRuns: [] });
    expect((await schedule.run()).status).toBe(400);
    await createKey(api, { role: 'viewer', account });
    await schedule.change({ paused: false });
    expect((await schedule.document()).nextRuns).toHaveLength(5);
    await schedule.due();
    const [viewer, role] = [`codehost_oauth/${account}`, 'the role member or a higher one'];
    await expect
      .poll(async () => (await schedule.document()).pausedReason, { timeout: 40_000 })
      .toBe(`no valid key of the account ${viewer} has ${role}`);
  });

  test('who may not command an agent of another account', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const account = uniqueName('member');
    const { api: member } = await createKey(api, { role: 'member', account });
    const other = await api.get<{ account: string }>('/v1/whoami');
    const agentId = { ...t.id('a'), account: other.body.account };
    await expect(write({ agentId, message: 'hello' }, member)).rejects.toThrow('belongs to another account');
  });
});

describe('failures', () => {
  test('ten in a row pause it, and a write continues it', async () => {
    const t = await newTestTenant(api);
    const schedule = await write({ agentId: t.id('missing'), message: 'hello', missed: 'all' });
    await schedule.due(12);
    const outcomes = await schedule.outcomes(10);
    expect(outcomes).toHaveLength(10);
    expect(outcomes[9]).toBe('FAILED the agent missing does not exist');
    const { pausedReason, nextRuns } = await schedule.document();
    expect(pausedReason).toBe('10 fires in a row failed; the last one: the agent missing does not exist');
    expect(nextRuns).toEqual([]);
    await t.spawn('missing');
    await schedule.change({ paused: false });
    expect(await schedule.fires()).toMatchObject({ outcome: 'FIRED' });
  });
});

test('a schedule that is paused, written again or deleted', async () => {
  const { t, schedule } = await telling();
  await schedule.due(2);
  // What is due is not lost by a change of the message.
  await schedule.change({ message: 'changed' });
  await schedule.outcomes(2);
  await schedule.change({ paused: true });
  expect((await schedule.document()).nextRuns).toEqual([]);
  expect((await schedule.run()).body).toMatchObject({ outcome: 'SKIPPED', manual: true });
  await t.clear('a');
  expect((await schedule.run()).body).toMatchObject({ outcome: 'FIRED', manual: true });
  await deleteResource(api, 'schedule', schedule.name);
  expect(await schedule.history()).toHaveLength(4);
  expect((await schedule.run()).status).toBe(404);
  const unknown = await api.post('/v1/schedule/history', { name: 'unknown' });
  expect(unknown.status).toBe(404);
});

test('the history has pages', async () => {
  const { schedule } = await telling({ missed: 'all', overlap: 'allow' });
  await schedule.due(4);
  await schedule.outcomes(5);
  const pages: unknown[] = [];
  let pageToken = '';
  do {
    const { body } = await api.post<{ entries: unknown[]; nextPageToken: string }>('/v1/schedule/history', {
      ...{ name: schedule.name, pageSize: 2, pageToken },
    });
    pages.push(...body.entries);
    pageToken = body.nextPageToken;
  } while (pageToken);
  expect(pages).toEqual(await schedule.history());
});
