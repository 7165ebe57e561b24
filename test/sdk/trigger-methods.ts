import { type MusterClient, NotFoundError } from '@muster/sdk';
import { expect, test } from 'vitest';
import { uniqueName } from '../support/catalog.ts';

/** The methods for triggers, with the client that records which routes it calls. */
export const testTriggerMethods = (client: MusterClient) =>
  test('triggers lists what one received page by page, processes it again, and tests it', async () => {
    const name = uniqueName('trigger');
    const { document } = await client.catalog.write('trigger', name, {
      spawn: {},
      auth: 'bearer',
      paused: true,
    });
    const { url, secret } = document as { url: string; secret: string };
    const headers = { authorization: `Bearer ${secret}` };
    for (const body of ['1', '2', '3'])
      expect((await fetch(url, { method: 'POST', headers, body })).status).toBe(202);
    const { entries, nextPageToken } = await client.triggers.listDeliveries(name, { pageSize: 2 });
    expect([entries.length, nextPageToken === '']).toEqual([2, false]);
    const all = [];
    for await (const { deliveryId } of client.triggers.deliveries(name, { pageSize: 2 }))
      all.push(deliveryId);
    expect(all).toHaveLength(3);
    const [newest = ''] = all;
    expect(await client.triggers.redeliver(name, newest)).toMatchObject({
      deliveryId: newest,
      state: 'RECEIVED',
    });
    const { webhookUrl, checks } = await client.triggers.test(name);
    expect(webhookUrl).toBe(url);
    expect(checks.filter(({ ok }) => !ok).map((check) => check.name)).toEqual(['active']);
    await expect(client.triggers.test('nothing')).rejects.toBeInstanceOf(NotFoundError);
  });
