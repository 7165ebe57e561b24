import { createHmac } from 'node:crypto';
import { type MusterClient, NotFoundError } from '@muster/sdk';
import { describe, expect, test } from 'vitest';
import { uniqueName } from '../support/catalog.ts';
import type { newTestTenant } from '../support/test-tenant.ts';

export const collect = async <T>(entries: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = [];
  for await (const entry of entries) all.push(entry);
  return all;
};

/** The methods for code hosts, with the client that records which routes it calls. */
export const testCodeHostMethods = (
  client: MusterClient,
  testTenant: Awaited<ReturnType<typeof newTestTenant>>,
) =>
  describe('code hosts', () => {
    const integration = uniqueName('host');
    let webhookUrl = '';
    let signingKey = '';

    const deliver = async (id: string): Promise<number> => {
      const digest = createHmac('sha256', signingKey).update('{}').digest('hex');
      const headers = {
        'x-github-event': 'ping',
        'x-github-delivery': id,
        'x-hub-signature-256': `sha256=${digest}`,
      };
      return (await fetch(webhookUrl, { method: 'POST', headers, body: '{}' })).status;
    };

    test('the write that creates an integration returns the address of its webhook and its key', async () => {
      const { document } = await client.catalog.write('integration', integration, { type: 'github' });
      ({ webhookUrl, signingKey } = document as { webhookUrl: string; signingKey: string });
      expect(webhookUrl).toMatch(/\/hooks\/[\w-]{32}$/);
      expect(signingKey.length).toBeGreaterThan(20);
    });

    test('testIntegration lists what is missing', async () => {
      const { checks, ...found } = await client.testIntegration(integration);
      expect(found).toEqual({ account: '', webhookUrl });
      expect(checks.map(({ name, ok }) => ({ name, ok }))).toEqual([
        { name: 'credential', ok: false },
        { name: 'webhook', ok: false },
      ]);
      expect(checks[0]?.advice).toContain('token is missing. Write token: {fromSecret: NAME}');
      await expect(client.testIntegration('nothing')).rejects.toBeInstanceOf(NotFoundError);
    });

    test('listDeliveries is paged, deliveries reads all pages, and redeliver takes one of them', async () => {
      for (const id of ['first', 'second', 'third']) expect(await deliver(id)).toBe(202);
      const { entries, nextPageToken } = await client.listDeliveries(integration, { pageSize: 2 });
      expect(entries.map(({ deliveryId }) => deliveryId)).toEqual(['third', 'second']);
      expect(nextPageToken).not.toBe('');
      const all = await collect(client.deliveries(integration, { pageSize: 2 }));
      expect(all.map(({ deliveryId }) => deliveryId)).toEqual(['third', 'second', 'first']);
      expect(await collect(client.deliveries(integration, { states: ['DONE'] }))).toEqual([]);
      expect(await client.redeliver(integration, 'first')).toMatchObject({
        deliveryId: 'first',
        state: 'RECEIVED',
      });
      await expect(client.redeliver(integration, 'fourth')).rejects.toBeInstanceOf(NotFoundError);
    });

    test('openChangeRequest needs a pushed branch; syncChangeRequests counts open change requests', async () => {
      await testTenant.spawn('unpushed');
      await expect(client.openChangeRequest(`${testTenant.workspace}:unpushed`)).rejects.toMatchObject({
        status: 'FAILED_PRECONDITION',
      });
      expect(await client.syncChangeRequests()).toEqual({ asked: 0 });
      await expect(client.syncChangeRequests({ name: 'nothing' })).rejects.toBeInstanceOf(NotFoundError);
    });
  });
