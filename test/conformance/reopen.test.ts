import { describe, expect, test } from 'vitest';
import { copyAgents, useDatabase } from '../support/database.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, newTestTenant, textsOf } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;
const database = await useDatabase(server.databaseUrl);

const fault = (code: string, message = 'it broke') => ({ error: { code, message } });

describe('reopen', () => {
  const finish = { finished: true, response: 'all done' };

  test.each([
    ['COMPLETED', finish],
    ['FAILED', fault('REHEARSED_FAILURE')],
  ])('turns a %s agent into RESTING with its session, checklist and branch', async (outcome, end) => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'first', tasks: [{ id: 't', subject: 'Do it' }] });
    const run = await t.start('a');
    const push = { ref: 'muster/a', commits: ['c'], files: ['f'] };
    await t.report(run, { session: 'session-1', pushes: [push] });
    await t.send('agent/tasks/update', 'a', { id: 't', status: 'TASK_STATUS_COMPLETED' });
    await t.queue('a', { followUpId: 'd', description: 'd', deliverAt: inAnHour() });
    await t.remove('a', 'd');
    await t.end(run, outcome, end);
    expect((await t.status('a')).phase).toBe(`PHASE_${outcome}`);

    expect((await t.send('agent/reopen', 'a')).body).toEqual({});
    expect(await t.status('a')).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      phaseReason: 'RESTING',
      error: null,
      endedAt: null,
      branch: 'muster/a',
      followUps: [],
      tasks: [{ id: 't', status: 'TASK_STATUS_COMPLETED' }],
    });
    expect(await t.offered()).toEqual([]);
    await t.queue('a', 'more');
    const next = await t.start('a');
    expect(next).toMatchObject({ runId: 2, session: 'session-1', attempt: 1 });
    expect(textsOf(next)).toEqual(['more']);
    await t.end(next);
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('leaves cleared messages cleared, and changes nothing on a live agent', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', { followUpId: 'q', description: 'q' });
    expect((await t.send('agent/reopen', 'a')).body).toEqual({});
    expect(await t.phase('a')).toBe('RUNNING/WORKING');
    await t.end(run, 'FAILED', fault('REHEARSED_FAILURE'));
    await t.send('agent/reopen', 'a');
    expect(await t.followUpIds('a')).toEqual([]);
    expect((await t.send('agent/queue/get', 'a', { followUpId: 'q' })).body).toMatchObject({
      state: 'CLEARED',
    });
  });

  test('does not revive a killed agent', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.kill('a');
    expectError(await t.send('agent/reopen', 'a'), 'FAILED_PRECONDITION');
  });

  test('needs a parent that has not ended', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const parent = await t.start('p');
    await t.spawn('p/c');
    await t.end(await t.start('p/c'), 'COMPLETED', finish);
    await t.end(parent, 'FAILED', fault('REHEARSED_FAILURE'));
    expectError(await t.send('agent/reopen', 'p/c'), 'FAILED_PRECONDITION');
    await t.send('agent/reopen', 'p');
    expect((await t.send('agent/reopen', 'p/c')).status).toBe(200);
    expect(await t.phase('p/c')).toBe('WAITING_FOR_INPUT/RESTING');
    await t.kill('p');
    expect(await t.phase('p/c')).toBe('CANCELED/PARENT_KILLED');
  });

  test('needs room under the limit of live descendants', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const parent = await t.start('p');
    await t.spawn('p/c');
    await t.end(await t.start('p/c'), 'COMPLETED', finish);
    await t.end(parent);
    // Inserted into the database directly, because 500 spawns take long.
    await copyAgents(
      database,
      {
        from: 'agents a CROSS JOIN generate_series(1, 500) n',
        where: `a.workspace = $1 AND a.path = 'p/c'`,
        fields: `json_build_object('id', gen_random_uuid(), 'path', 'p/n' || n,
          'phase', 'PHASE_WAITING_FOR_INPUT', 'reason', 'RESTING', 'ended_at', NULL)`,
      },
      [t.workspace],
    );
    expectError(await t.send('agent/reopen', 'p/c'), 'RESOURCE_EXHAUSTED');
    await t.kill('p/n1');
    expect((await t.send('agent/reopen', 'p/c')).status).toBe(200);
  });

  test('starts a new session after the retention time of sessions, with a WARNING', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.report(run, { session: 'session-1' });
    await t.end(run, 'COMPLETED', finish);
    await database.query(
      "UPDATE agents SET ended_at = ended_at - interval '31 days', history_deleted = true WHERE workspace = $1",
      [t.workspace],
    );
    await t.send('agent/reopen', 'a');
    expect((await t.timeline('a', 'WARNING')).map(({ text }) => text)).toEqual([
      expect.stringContaining('starts a new session'),
    ]);
    const { rows } = await database.query(
      'SELECT history_deleted AS deleted FROM agents WHERE workspace = $1',
      [t.workspace],
    );
    expect(rows).toEqual([{ deleted: false }]);
    await t.queue('a', 'more');
    expect((await t.claim('a')).session).toBe('');
  });
});
