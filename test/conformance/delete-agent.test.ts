import type { AgentEntry } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { createKey, writeResource } from '../support/catalog.ts';
import { copyAgents, useDatabase } from '../support/database.ts';
import { expectError } from '../support/expect-reply.ts';
import { png, uploadTo } from '../support/images.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { openStream } from '../support/streams.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;
const database = await useDatabase(server.databaseUrl);

const finished = { finished: true, response: 'a long story' };
const remove = (t: TestTenant, path: string) => api.post('/v1/agent/delete', { agentId: t.id(path) });

/** The tables that still have something of an agent. */
async function tablesWith(id: string): Promise<string[]> {
  const { rows } = await database.query<{ table: string }>(
    `SELECT c.table_name AS table FROM information_schema.columns c JOIN information_schema.tables t USING (table_name)
     WHERE c.table_schema = 'public' AND t.table_schema = 'public' AND c.column_name = 'agent'
       AND c.data_type = 'uuid' AND t.table_type = 'BASE TABLE' AND c.table_name !~ '^timeline_'`,
  );
  const found: string[] = [];
  for (const { table } of rows) {
    const { rowCount } = await database.query(`SELECT FROM ${table} WHERE agent = $1 LIMIT 1`, [id]);
    if (rowCount) found.push(table);
  }
  return found.sort();
}

const erased = (id: string) =>
  until(
    'nothing but the record is left',
    () => tablesWith(id),
    (tables) => tables.join() === 'deleted_agents',
  );

describe('deleting an agent', () => {
  test('leaves a record of who did it, and nothing else', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'd', tasks: [{ subject: 'x' }], labels: { team: 'web' } });
    const claim = await t.start('a');
    await t.queue('a', { description: 'more' });
    await uploadTo(api, t.id('a'), png('deleted'));
    const repo = 'https://git.example.com/shop';
    await t.report(claim, {
      pushes: [{ repo, ref: claim.branch, commits: ['c'], files: ['f'] }],
      diff: { repo, files: 1, insertions: 1, deletions: 0, text: '+x' },
    });
    await t.send('agent/threads/create', 'a', { comments: [{ path: 'f', line: 1, body: 'why?' }] });
    await t.runner.saveCheckpoint(claim, Buffer.alloc(1000));
    await t.end(claim, 'COMPLETED');
    await t.kill('a');
    const id = claim.agentKey;
    expect(await tablesWith(id)).toEqual(
      expect.arrayContaining([
        'attachments',
        'checkpoints',
        'diffs',
        'labels',
        'runs',
        'threads',
        'timeline',
      ]),
    );
    const list = await openStream<AgentEntry>(api, '/v1/agents/stream', {
      workspace: t.workspace,
      includeTerminal: true,
    });
    await list.until(({ type }) => type === 'whole');

    expect(await remove(t, 'a')).toMatchObject({ status: 200, body: {} });
    expectError(await t.send('agent/status', 'a'), 'NOT_FOUND');
    expectError(await remove(t, 'a'), 'NOT_FOUND');
    const { body } = await api.post('/v1/agents', { workspace: t.workspace, includeTerminal: true });
    expect(body).toMatchObject({ entries: [] });
    // Its reader connects again and gets a list without the agent.
    expect(await list.until(() => false)).toBe(false);
    await erased(id);
    const { rows } = await database.query(
      `SELECT d.deleted_by, a.path, a.run_count FROM deleted_agents d JOIN agents a ON a.id = d.agent WHERE d.agent = $1`,
      [id],
    );
    expect(rows).toEqual([{ deleted_by: expect.stringContaining('admin'), path: 'a', run_count: 1 }]);
    // The folders on its runner are deleted as those of any agent that has ended.
    expect((await t.runner.ended([id])).body).toEqual({ ended: [id] });
    // The name is free.
    await t.spawn('a');
    expect((await t.status('a')).runCount).toBe('0');
  });

  test('is refused while it, or an agent below it, has not ended', async () => {
    const t = await newTestTenant(api);
    await t.spawn('top');
    const top = await t.start('top');
    expect(expectError(await remove(t, 'top'), 'FAILED_PRECONDITION').message).toMatch(
      /has not ended; kill it/,
    );
    await t.spawn('top/below');
    const { rowCount } = await database.query(
      `UPDATE agents SET phase = 'PHASE_COMPLETED', reason = 'FINISHED', ended_at = now(), claimable_at = NULL WHERE id = $1`,
      [top.agentKey],
    );
    expect(rowCount).toBe(1);
    expect(expectError(await remove(t, 'top'), 'FAILED_PRECONDITION').message).toBe(
      '1 agent below top has not ended; kill it first',
    );
    expect((await t.status('top')).phase).toBe('PHASE_COMPLETED');
  });

  test('deletes the ended agents below it, however many there are', async () => {
    const t = await newTestTenant(api);
    await t.spawn('root');
    await t.turn('root');
    await t.spawn('root/kid');
    await t.kill('root');
    const copied = await copyAgents(
      database,
      {
        from: 'agents a CROSS JOIN generate_series(1, 520) AS s (n)',
        where: `a.workspace = $1 AND a.path = 'root/kid'`,
        fields: `json_build_object('id', gen_random_uuid(), 'path', 'root/kid-' || s.n)`,
      },
      [t.workspace],
    );
    expect(copied).toBe(520);
    expect((await remove(t, 'root')).status).toBe(200);
    const left = async () => {
      const { rows } = await database.query<{ count: number }>(
        `SELECT count(*)::int FROM agents a LEFT JOIN deleted_agents d ON d.agent = a.id
         WHERE a.workspace = $1 AND (a.current OR d.erased_at IS NULL)`,
        [t.workspace],
      );
      return rows[0]?.count ?? -1;
    };
    await until('all of them are erased', left, (count) => count === 0);
  });

  test('is for those who may command the agent, and ends its share links', async () => {
    const t = await newTestTenant(api);
    await t.spawn('mine');
    await t.turn('mine', finished);
    const link = await writeResource(api, 'share-link', t.workspace, { agentId: t.id('mine') });
    const shared = api.as(String(link.url).split('#')[1] ?? '');
    expect((await shared.post('/v1/agent/status', {})).status).toBe(200);
    const { api: member } = await createKey(api, { role: 'member', account: 'other' });
    const { api: viewer } = await createKey(api, { role: 'viewer' });
    const { agentId } = await t.status('mine');
    for (const by of [member, viewer, shared])
      expectError(await by.post('/v1/agent/delete', { agentId }), 'PERMISSION_DENIED');
    expect((await remove(t, 'mine')).status).toBe(200);
    for (const route of ['status', 'timeline', 'runs', 'diff'])
      expectError(await shared.post(`/v1/agent/${route}`, {}), 'NOT_FOUND');
  });

  test('cannot be undone by a command that knows its id: it counts as killed', async () => {
    const t = await newTestTenant(api);
    await t.spawn('gone');
    const { agentKey } = await t.turn('gone', finished);
    await remove(t, 'gone');
    const { rows } = await database.query('SELECT phase, current FROM agents WHERE id = $1', [agentKey]);
    expect(rows).toEqual([{ phase: 'PHASE_CANCELED', current: false }]);
    expectError(await t.send('agent/reopen', 'gone'), 'NOT_FOUND');
  });
});
