import { type MusterClient, NotFoundError } from '@muster/sdk';
import { expect, test } from 'vitest';
import { uniqueName } from '../support/catalog.ts';

/** The methods for notifications, with the client that records which routes it calls. */
export const testNotificationMethods = (client: MusterClient) =>
  test('notifications sends a test, lists what was sent page by page, and sends it again', async () => {
    const name = uniqueName('notification');
    await client.catalog.write('notification', name, { url: 'http://127.0.0.1:9/' });
    for (let i = 0; i < 3; i += 1)
      expect(await client.notifications.test(name)).toMatchObject({ type: 'test', state: 'FAILED' });
    const { entries, nextPageToken } = await client.notifications.listDeliveries(name, { pageSize: 2 });
    expect([entries.length, nextPageToken === '']).toEqual([2, false]);
    const all = [];
    for await (const { deliveryId } of client.notifications.deliveries(name, { pageSize: 2 }))
      all.push(deliveryId);
    expect(all).toHaveLength(3);
    const [newest = ''] = all;
    expect(await client.notifications.redeliver(name, newest)).toMatchObject({ deliveryId: newest });
    await expect(client.notifications.test('nothing')).rejects.toBeInstanceOf(NotFoundError);
  });
