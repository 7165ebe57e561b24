import type { AgentStatus } from '@muster/sdk/contract';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { type Answer, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { uniqueName } from '../support/catalog.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { startHostileHost } from './host-replies.ts';
import {
  globs,
  graphs,
  type Hostile,
  json,
  large,
  longLines,
  outputs,
  playTurn,
  reports,
  schemas,
  slowOutput,
} from './inputs.ts';
import { useMeasuredServer } from './measured-server.ts';

/** No input blocks the service: measured-server.ts says what is measured and how much is allowed. */
const codeHost = await startHostileHost();
afterAll(() => codeHost.close());
const { server, expectCheap, block } = await useMeasuredServer({ MUSTER_ALLOW_INNER_HOSTS: codeHost.host });
const api = apiOf(server);
const tenant = await newTestTenant(api);
const otherTenant = await newTestTenant((await newTenant(await operatorOf(server))).admin);
// Code that is compiled at the first request must not count.
for (const { run } of [reports[1], schemas[5], json[2]] as Hostile[]) await run(tenant);

const refused = (answers: readonly Answer<unknown>[], from = 201) =>
  answers.filter(({ status }) => status >= from).map(({ status, body }) => [status, body]);

describe.each([
  ['task graphs', graphs],
  ['output schemas', schemas],
  ['outputs', outputs],
  ['globs', globs],
  ['JSON', json],
  ['long lines', longLines],
  ['reports', reports],
  ['large contents', large],
  ['replies of a code host', codeHost.inputs],
])('%s', (_, inputs) => {
  test.each(inputs)('$name', async ({ run }) => {
    expect(refused(await expectCheap(() => run(tenant)), 500)).toEqual([]);
  });
});

test('waits for a thousand agents each, and for one that is named a thousand times', async () => {
  const name = uniqueName('waited');
  await tenant.spawn(name);
  const { agentId } = await tenant.status(name);
  const others = Array.from({ length: 1000 }, (_, i) => ({ agent: [`${name}-${i}`] }));
  const wait = (agentIds: readonly unknown[]) => api.post('/v1/agents/wait', { agentIds, timeoutSeconds: 0 });
  const both = Array.from({ length: 20 }, () => [others, others.map(() => agentId)]).flat();
  const answers = await expectCheap(() => Promise.all(both.map(wait)));
  expect(answers.map(({ status }) => status)).toEqual(both.map((ids) => (ids === others ? 404 : 200)));
});

/** How many inputs of each kind that was expensive before are generated. */
const count = Number(process.env.MUSTER_HOSTILE_INPUTS ?? 3);

/** Edges from each task to some of those before it. */
const graph = fc
  .tuple(fc.integer({ min: 2, max: 300 }), fc.integer({ min: 1, max: 12 }), fc.infiniteStream(fc.nat()))
  .map(([size, degree, numbers]) => {
    const next = () => numbers.next().value as number;
    const tasks = Array.from({ length: size }, (_, i) => ({
      id: `t${i}`,
      blockedBy: i === 0 ? [] : Array.from({ length: degree }, () => `t${next() % i}`),
    }));
    return { tasks };
  });

const glob = fc
  .array(fc.constantFrom('*', '**', '**/', '?', 'a', '/', '[ab]', '{a,b*}', '*(a|*b)', '+(a?)', '@(|a)'), {
    maxLength: 60,
  })
  .map((parts) => parts.join(''));
const path = fc.string({ unit: fc.constantFrom('a', 'b', '/', 'é'), minLength: 1, maxLength: 2000 });

const reference = fc.nat({ max: 19 }).map((level) => ({ $ref: `#/$defs/d${level}` }));
const part = fc.oneof(
  reference,
  fc.constantFrom<object>(
    { type: 'string' },
    { pattern: '^(a|a)*$' },
    { enum: [1, 2] },
    { uniqueItems: true },
  ),
);
const schemaPart = fc.oneof(
  fc.array(part, { minLength: 1, maxLength: 8 }).map((allOf) => ({ allOf })),
  fc.array(part, { minLength: 1, maxLength: 8 }).map((anyOf) => ({ anyOf, unevaluatedProperties: false })),
  fc.dictionary(fc.constantFrom('a', 'b', 'c'), part).map((properties) => ({ properties })),
);
const schema = fc
  .array(schemaPart, { minLength: 20, maxLength: 20 })
  .map((parts) => ({ $defs: Object.fromEntries(parts.map((one, i) => [`d${i}`, one])), $ref: '#/$defs/d0' }));

const activation = (pattern: string) => ({ activation: { filesModified: { pattern } } });

test.each<[string, fc.Arbitrary<[Record<string, unknown>, Record<string, unknown>]>]>([
  ['task graphs', graph.map((spawn) => [spawn, {}])],
  [
    'globs',
    fc
      .tuple(fc.array(glob, { minLength: 1, maxLength: 100 }), fc.array(path, { maxLength: 100 }))
      .map(([patterns, files]) => [
        { tasks: patterns.map(activation) },
        { pushes: [{ ref: 'refs/heads/x', commits: [], files }] },
      ]),
  ],
  ['output schemas', schema.map((one) => [{ outputSchema: JSON.stringify(one) }, {}])],
])('generated %s', async (_, arbitrary) => {
  const generated = fc.sample(arbitrary, { numRuns: count, seed: 10 });
  const answers = await expectCheap(async () => {
    const all: Answer<unknown>[] = [];
    for (const [spawn, report] of generated) all.push(...(await playTurn(tenant, spawn, report)));
    return all;
  });
  expect(refused(answers, 500)).toEqual([]);
});

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

/** One of each kind. */
const concurrent = [graphs[1], schemas[3], globs[1], json[3], longLines[2], reports[0]] as Hostile[];

test('another tenant is served while one sends all kinds', async () => {
  const answers: Answer<unknown>[] = [];
  let isOver = false;
  // Each with its own runner, so that none claims the run of another.
  const attack = Promise.all(concurrent.map(async ({ run }) => run(await newTestTenant(api)))).finally(() => {
    isOver = true;
  });
  // At most a few turns, if the inputs take that long.
  for (let turn = 0; turn === 0 || (turn < 3 && !isOver); turn += 1)
    answers.push(...(await workOnce(otherTenant, `beside-${turn}`)));
  await attack;
  expect(refused(answers)).toEqual([]);
});

test('a tenant gets its replies before a slow output of another tenant is checked', async () => {
  const order = await expectCheap(async () => {
    const seen: string[] = [];
    const slow = slowOutput.run(tenant).then(([answer]) => {
      const status = answer?.body as AgentStatus | undefined;
      seen.push(`output ${status?.error?.code}`);
    });
    expect(refused(await workOnce(otherTenant, uniqueName('beside')))).toEqual([]);
    seen.push('work beside it');
    await slow;
    return seen;
  });
  expect(order).toEqual(['work beside it', 'output INVALID_STRUCTURED_OUTPUT']);
});

test.each(['service', 'runner'] as const)('a blocked event loop of the %s is noticed', async (name) => {
  await expect(expectCheap(() => block(2000, name), 1)).rejects.toThrow('longest turn of the event loop');
});

interface Stall {
  readonly ms: number;
  readonly cpuMs: number;
  readonly routes: readonly string[];
}

/** The stalls in these lines of the log. */
const stallsIn = (output: readonly string[]): Stall[] =>
  output
    .join('')
    .split('\n')
    .filter((line) => line.includes('"event loop stalled"'))
    .map((line) => JSON.parse(line));

/** How many delays of the event loop took longer than 200 ms. */
async function longDelays(): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const upTo = (most: string): number => {
    const name = `muster_event_loop_delay_seconds_bucket{le="${most}"} `;
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(name))
        ?.slice(name.length),
    );
  };
  return upTo('+Inf') - upTo('0.2');
}

test('a stall of the event loop is logged with the routes of that moment, and counted', async () => {
  const before = await longDelays();
  const lines = server.output.length;
  // The request may arrive before or after the stall.
  const stallOfRoute = async () => {
    await Promise.all([api.post('/v1/agents'), block(400)]);
    return stallsIn(server.output.slice(lines)).find(({ routes }) => routes.includes('POST /v1/agents'));
  };
  const logged = await until('a stall of the route', stallOfRoute, (stall) => stall !== undefined);
  expect(logged?.ms).toBeGreaterThan(200);
  expect(logged?.cpuMs).toBeGreaterThan(0);
  expect(await longDelays()).toBeGreaterThan(before);
});
