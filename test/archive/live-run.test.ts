import { afterAll, expect, test } from 'vitest';
import { Node } from '../crash/node.ts';
import { lookInto } from '../crash/store.ts';
import { Agents } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { muster, Places } from './archives.ts';

const places = new Places();
const nodes: Node[] = [];
afterAll(async () => {
  for (const node of nodes) await node.close();
  await places.clear();
});

async function start(databaseUrl: string, turnMs: number): Promise<Node> {
  const env = { MUSTER_LEASE_SECONDS: '6', MUSTER_REHEARSAL_MS: String(turnMs) };
  const node = await Node.start({ databaseUrl, env });
  nodes.push(node);
  return node;
}

test('a run that was live when it was exported is lost with its runner, and its agent goes on in the new store', async () => {
  const old = await start(await places.database(), 3_600_000);
  const s = new Agents(old.api, 'default');
  await s.spawn('a', { description: 'a long turn' });
  await until(
    'the run at work',
    () => s.phase('a'),
    (phase) => phase === 'RUNNING/WORKING',
  );
  const file = places.path('live.gz');
  expect(await muster(['export', '-f', file], old.server.env)).toMatchObject({ code: 0 });
  await old.kill();

  const url = await places.database();
  expect(await muster(['import', '-f', file], places.env(url))).toMatchObject({ code: 0 });
  const next = await start(url, 50);
  const there = new Agents(next.api.as(old.key), 'default');
  expect(await there.wait('a')).toMatchObject({ phase: 'PHASE_WAITING_FOR_INPUT', phaseReason: 'RESTING' });
  expect((await there.runs('a')).map(({ runId, outcome }) => [runId, outcome])).toEqual([
    ['2', 'COMPLETED'],
    ['1', 'LOST'],
  ]);
  await there.queue('a', 'and again');
  await until(
    'a third run, over',
    () => there.runs('a'),
    ([newest]) => newest?.runId === '3' && newest.outcome === 'COMPLETED',
  );
  expect(await lookInto(url, (store) => store.violations())).toEqual([]);
});
