import { describe, expect, test } from 'vitest';
import { newTestTenant } from '../support/test-tenant.ts';
import { globs, graphs, type Hostile, json, large, longLines, outputs, reports, schemas } from './inputs.ts';
import { useMeasuredServer } from './measured-server.ts';

/** No input blocks the service: measured-server.ts says what is measured and how much is allowed. */
const server = await useMeasuredServer();
const tenant = await newTestTenant(server.api);
// Code that is compiled at the first request must not count.
for (const { run } of [reports[1], schemas[5], json[2]] as Hostile[]) await run(tenant);

describe.each([
  ['task graphs', graphs],
  ['output schemas', schemas],
  ['outputs', outputs],
  ['globs', globs],
  ['JSON', json],
  ['long lines', longLines],
  ['reports', reports],
  ['large contents', large],
])('%s', (_, inputs) => {
  test.each(inputs)('$name', async ({ run }) => {
    const answers = await server.expectCheap(() => run(tenant));
    const failed = answers.filter(({ status }) => status >= 500);
    expect(failed.map(({ status, body }) => [status, body])).toEqual([]);
  });
});
