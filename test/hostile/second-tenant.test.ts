import { expect, test } from 'vitest';
import type { Answer } from '../support/api.ts';
import { newTenant } from '../support/tenants.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { globs, graphs, type Hostile, json, longLines, rehearse, reports, schemas } from './inputs.ts';
import { useMeasuredServer } from './measured-server.ts';

/** One tenant sends hostile inputs concurrently, and another tenant is served meanwhile. */
const server = await useMeasuredServer();
const attackers = [await newTestTenant(server.api), await newTestTenant(server.api)];
const neighbour = await newTestTenant((await newTenant(server.operator)).admin);

/** One turn of an agent, with status, list and kill, and a schema that must be compiled. */
async function workOnce(tenant: TestTenant, name: string): Promise<Answer<unknown>[]> {
  const outputSchema = JSON.stringify({ type: 'object', title: name });
  const spawned = await tenant.send('agent/spawn', name, {
    model: 'rehearsal-a',
    description: 'work',
    outputSchema,
  });
  if (spawned.status !== 200) return [spawned];
  const claim = await tenant.claim(name);
  return [
    spawned,
    await tenant.runner.started(claim),
    await tenant.send('agent/status', name),
    await tenant.send('agent/queue', name, { description: 'more' }),
    await tenant.api.post('/v1/agents', { pageSize: 10 }),
    await tenant.runner.end(claim),
    await tenant.send('agent/kill', name),
  ];
}

const oneOfEach: [string, Hostile[]][] = [
  ['task graphs', [graphs[0], graphs[1]] as Hostile[]],
  ['output schemas', [schemas[1], schemas[3], schemas[6]] as Hostile[]],
  ['globs', [globs[0], globs[1]] as Hostile[]],
  ['JSON', [json[0], json[3]] as Hostile[]],
  ['long lines', [longLines[2], longLines[5]] as Hostile[]],
  ['pushes', [reports[0], reports[1]] as Hostile[]],
];

const refused = (answers: readonly Answer<unknown>[]) =>
  answers.filter(({ status }) => status !== 200).map(({ status, body }) => [status, body]);

let turns = 0;

/** Turns of work beside each input, if the input takes that long. */
const mostTurns = 2;

test.each(oneOfEach)('another tenant is served while one sends %s', async (_, inputs) => {
  const answers: Answer<unknown>[] = [];
  for (const { run } of inputs) {
    let isOver = false;
    const attack = Promise.all(attackers.map(run)).finally(() => {
      isOver = true;
    });
    for (let turn = 0; turn === 0 || (turn < mostTurns && !isOver); turn += 1) {
      turns += 1;
      answers.push(...(await workOnce(neighbour, `turn-${turns}`)));
    }
    await attack;
  }
  expect(refused(answers)).toEqual([]);
});

test('a tenant gets its replies before a slow output of another tenant is checked', async () => {
  const order: string[] = [];
  const slow = (async () => {
    const outputSchema = JSON.stringify({ pattern: '^(a+)+$' });
    const description = `!output "${'a'.repeat(60)}!"`;
    const { body } = await rehearse(server.api, { outputSchema, description });
    order.push(`output ${body.error?.code}`);
  })();
  await server.expectCheap(async () => {
    expect(refused(await workOnce(neighbour, 'beside'))).toEqual([]);
    order.push('work beside it');
    await slow;
  });
  expect(order).toEqual(['work beside it', 'output INVALID_STRUCTURED_OUTPUT']);
});
