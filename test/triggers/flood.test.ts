import { randomUUID } from 'node:crypto';
import { Agent, request as requestHttp } from 'node:http';
import { expect, it } from 'vitest';
import { apiOf } from '../support/api.ts';
import { runConcurrently, until } from '../support/async.ts';
import { sharedServer, useSharedServer } from '../support/shared-server.ts';
import { TestTrigger } from './requests.ts';

const { api } = await useSharedServer({ runner: false });

const requests = 2_000;

/** Sends as fast as the service answers, over some connections that stay open. */
async function flood(trigger: TestTrigger): Promise<Map<number, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: 50 });
  const statuses = new Map<number, number>();
  await runConcurrently(requests, 50, async (n) => {
    const body = JSON.stringify({ n, text: 'x'.repeat(200) });
    const headers = { 'content-type': 'application/json', ...trigger.signed(body) };
    const status = await new Promise<number>((resolve) => {
      const sending = requestHttp(trigger.url, { method: 'POST', headers, agent }, (response) => {
        response.resume();
        response.on('end', () => resolve(response.statusCode ?? 0));
      });
      sending.on('error', () => resolve(0));
      sending.end(body);
    });
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  });
  agent.destroy();
  return statuses;
}

it('a sender with thousands of requests gets what it may, and another tenant is served meanwhile', async () => {
  const other = await sharedServer({ runner: false });
  try {
    const otherApi = apiOf(other);
    const [flooded, quiet] = await Promise.all([
      TestTrigger.create(api, { spawn: { description: '{{body.n}}' }, maxPerHour: 20 }),
      TestTrigger.create(otherApi, { spawn: {}, maxPerHour: 10_000 }),
    ]);
    let isOver = false;
    const flooding = flood(flooded).finally(() => {
      isOver = true;
    });
    // Requests and agents of the other tenant, one after the other, for as long as it lasts.
    let served = 0;
    while (!isOver) {
      const id = randomUUID();
      expect((await quiet.take({ served }, { id })).state).toBe('DONE');
      const { status } = await otherApi.post('/v1/agents', {});
      expect(status).toBe(200);
      served += 1;
    }
    expect(served).toBeGreaterThan(0);
    const statuses = await flooding;
    expect([...statuses]).toEqual([[202, requests]]);
    const settled = await until(
      'all of them settled',
      async () => {
        const { body } = await api.post<{ entries: unknown[] }>('/v1/trigger/deliveries', {
          name: flooded.name,
          states: ['RECEIVED'],
          pageSize: 1,
        });
        return body.entries.length;
      },
      (waiting) => waiting === 0,
      80_000,
    );
    expect(settled).toBe(0);
    const { body } = await api.post<{ entries: { state: string }[] }>('/v1/trigger/deliveries', {
      name: flooded.name,
      states: ['DONE', 'FAILED'],
    });
    expect(body.entries.map(({ state }) => state)).toEqual(Array.from({ length: 20 }, () => 'DONE'));
  } finally {
    await other.close();
  }
});
