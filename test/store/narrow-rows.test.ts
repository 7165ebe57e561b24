import { expect, test } from 'vitest';
import { useDatabase } from '../support/database.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant } from '../support/test-tenant.ts';

const { api, databaseUrl } = await useSharedServer({ runner: false });
const database = await useDatabase(databaseUrl);

/** The transaction that wrote each of an agent's rows: an update changes it. */
async function writers(workspace: string, path: string): Promise<Record<string, string>> {
  const { rows } = await database.query(
    `SELECT a.xmin::text AS agent, s.xmin::text AS state, b.xmin::text AS brief, r.xmin::text AS run,
       pg_column_size(a) AS bytes
     FROM agents a
     JOIN agent_states s ON s.tenant = a.tenant AND s.agent = a.id
     JOIN agent_briefs b ON b.tenant = a.tenant AND b.agent = a.id
     LEFT JOIN runs r ON r.tenant = a.tenant AND r.agent = a.id AND r.number = a.run_count
     WHERE a.workspace = $1 AND a.path = $2`,
    [workspace, path],
  );
  return rows[0] as Record<string, string>;
}

test('a message and a report of usage rewrite none of the rows with what is large', async () => {
  const t = await newTestTenant(api);
  const large = 'x'.repeat(100_000);
  await t.rested('a', { description: large }, { response: large });
  await t.queue('a', 'more');
  const claim = await t.start('a');
  const before = await writers(t.workspace, 'a');
  await t.queue('a', 'and more');
  await t.report(claim, { usage: { inputTokens: 5, outputTokens: 1, costUsd: 0.5 } });
  await t.report(claim, { currentAction: 'reads a file' });
  const after = await writers(t.workspace, 'a');
  expect(after).toMatchObject({ state: before.state, brief: before.brief });
  expect([after.agent, after.run]).not.toEqual([before.agent, before.run]);
  expect(Number(after.bytes)).toBeLessThan(1_000);
});
