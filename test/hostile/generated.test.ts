import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Answer } from '../support/api.ts';
import { newTestTenant } from '../support/test-tenant.ts';
import { playTurn } from './inputs.ts';
import { useMeasuredServer } from './measured-server.ts';

/** Inputs of kinds that were expensive before, generated from a seed. */
const server = await useMeasuredServer();
const tenant = await newTestTenant(server.api);
// Code that is compiled at the first request must not count.
await playTurn(tenant, { outputSchema: '{}', tasks: [{ id: 'a' }] });

const count = Number(process.env.MUSTER_HOSTILE_INPUTS ?? 12);

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
  const answers = await server.expectCheap(async () => {
    const all: Answer<unknown>[] = [];
    for (const [spawn, report] of generated) all.push(...(await playTurn(tenant, spawn, report)));
    return all;
  });
  const failed = answers.filter(({ status }) => status >= 500);
  expect(failed.map(({ status, body }) => [status, body])).toEqual([]);
});
