import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { apiOf } from '../support/api.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { globs, graphs, type Hostile, json, large, longLines, outputs, reports, schemas } from './inputs.ts';
import { type MeasuredServer, startMeasuredServer } from './measured-server.ts';

/** No input blocks the service: measured-server.ts says what is measured and how much is allowed. */
let server: MeasuredServer;
let tenant: TestTenant;

beforeAll(async () => {
  server = await startMeasuredServer();
  tenant = await newTestTenant(apiOf(server));
  // Code that is compiled at the first request must not count.
  for (const { run } of [reports[1], schemas[5], json[2]] as Hostile[]) await run(tenant);
});
afterAll(() => server.close());

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
