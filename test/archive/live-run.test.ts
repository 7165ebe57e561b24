import { expect, test } from 'vitest';
import type { Node } from '../crash/node.ts';
import { lookInto } from '../crash/store.ts';
import { Agents } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { exportDatabase, Places } from './archives.ts';

const places = new Places();

async function start(turnMs: number, databaseUrl?: string): Promise<Node> {
  const env = { MUSTER_LEASE_SECONDS: '6', MUSTER_REHEARSAL_MS: String(turnMs) };
  return places.node({ ...(databaseUrl && { databaseUrl }), env });
}

test('a run that was live during the export is lost, and its agent continues after the import', async () => {
  const old = await start(3_600_000);
  const s = new Agents(old.api, 'default');
  await s.spawn('a', { description: 'a long turn' });
  await until(
    'the run is working',
    () => s.phase('a'),
    (phase) => phase === 'RUNNING/WORKING',
  );
  const file = await exportDatabase(await old.databaseUrl(), places.path('live.gz'));
  await old.kill();

  const url = await places.importedDatabase(file);
  const next = await start(50, url);
  const there = new Agents(next.api.as(old.key), 'default');
  expect(await there.wait('a')).toMatchObject({ phase: 'PHASE_WAITING_FOR_INPUT', phaseReason: 'RESTING' });
  expect((await there.runs('a')).map(({ runId, outcome }) => [runId, outcome])).toEqual([
    ['2', 'COMPLETED'],
    ['1', 'LOST'],
  ]);
  await there.queue('a', 'and again');
  await until(
    'the third run has ended',
    () => there.runs('a'),
    ([newest]) => newest?.runId === '3' && newest.outcome === 'COMPLETED',
  );
  expect(await lookInto(url, (store) => store.violations())).toEqual([]);
});
