import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Answer } from '../support/api.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import {
  backtracked,
  backtracking,
  globs,
  graphs,
  type Hostile,
  json,
  longLines,
  rehearse,
  reports,
  schemas,
} from './inputs.ts';
import { type MeasuredServer, startMeasuredServer } from './measured-server.ts';

/** One tenant sends hostile inputs concurrently, and another tenant is served meanwhile. */
let server: MeasuredServer;
let attackers: TestTenant[];
let neighbour: TestTenant;

beforeAll(async () => {
  server = await startMeasuredServer();
  const operator = await operatorOf(server);
  const [one, other] = [await newTenant(operator), await newTenant(operator)];
  attackers = [await newTestTenant(one.admin), await newTestTenant(one.admin)];
  neighbour = await newTestTenant(other.admin);
});
afterAll(() => server.close());

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

test.each(oneOfEach)('another tenant is served while one sends %s', async (_, inputs) => {
  let isOver = false;
  const attack = (async () => {
    for (const { run } of inputs) await Promise.all(attackers.map(run));
    isOver = true;
  })();
  const answers: Answer<unknown>[] = [];
  do {
    turns += 1;
    answers.push(...(await workOnce(neighbour, `turn-${turns}`)));
  } while (!isOver);
  await attack;
  expect(refused(answers)).toEqual([]);
});

test('a tenant gets its replies before the slow outputs of another tenant are checked', async () => {
  const order: string[] = [];
  const slow = attackers.map(async ({ api }) => {
    const outputSchema = JSON.stringify(backtracking);
    const { body } = await rehearse(api, { outputSchema, description: backtracked });
    order.push(`output ${body.error?.code}`);
  });
  expect(refused(await workOnce(neighbour, 'beside'))).toEqual([]);
  order.push('work beside it');
  await Promise.all(slow);
  const outputs = attackers.map(() => 'output INVALID_STRUCTURED_OUTPUT');
  expect(order).toEqual(['work beside it', ...outputs]);
});
