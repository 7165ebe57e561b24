import { MusterClient } from '@muster/sdk';
import { expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { uniqueName } from '../support/catalog.ts';
import { FaultProxy } from '../support/fault-proxy.ts';
import { useSharedServer } from '../support/shared-server.ts';

const server = await useSharedServer({ runner: false });
const client = new MusterClient({ url: server.url, apiKey: server.key });

const counted = (document: { [field: string]: unknown } | undefined) => ({
  ...document,
  count: Number(document?.count ?? 0) + 1,
});

test('creates a missing resource, changes an existing one, and starts from a builtin one', async () => {
  const name = uniqueName('p');
  const first = await client.catalog.readModifyWrite('persona', name, (document, generation) => {
    expect({ document, generation }).toEqual({ document: undefined, generation: '0' });
    return { instructions: 'one' };
  });
  expect(first).toMatchObject({ generation: '1', document: { instructions: 'one' } });
  const second = await client.catalog.readModifyWrite('persona', name, async (document) => ({
    ...document,
    model: 'opus',
  }));
  expect(second).toMatchObject({ generation: '2', document: { instructions: 'one', model: 'opus' } });
  await client.catalog.delete('persona', name);
  expect(await client.catalog.readModifyWrite('persona', name, counted)).toMatchObject({
    generation: '4',
    document: { count: 1 },
  });
  const { document } = await client.catalog.readModifyWrite('persona', 'reviewer', counted);
  expect(document).toMatchObject({ count: 1, instructions: expect.stringMatching(/./) });
});

test('null changes nothing', async () => {
  const name = uniqueName('p');
  expect(await client.catalog.readModifyWrite('persona', name, () => null)).toBeNull();
  await expect(client.catalog.read('persona', name)).rejects.toMatchObject({ name: 'NotFoundError' });
});

test('errors of the change function and of the service are thrown', async () => {
  const change = client.catalog.readModifyWrite('persona', uniqueName('p'), () => {
    throw new Error('no idea');
  });
  await expect(change).rejects.toThrow('no idea');
  const wrong = client.catalog.readModifyWrite('persona', uniqueName('p'), () => ({ model: 7 as never }));
  await expect(wrong).rejects.toMatchObject({ name: 'InvalidArgumentError' });
});

test('the number of tries is limited', async () => {
  const name = uniqueName('p');
  const losing = client.catalog.readModifyWrite(
    'persona',
    name,
    async (document) => {
      await client.catalog.write('persona', name, { instructions: 'quicker' });
      return counted(document);
    },
    { tries: 3 },
  );
  await expect(losing).rejects.toMatchObject({ violations: [{ type: 'GENERATION' }] });
  expect(await client.catalog.read('persona', name)).toMatchObject({ generation: '3' });
});

test('twenty concurrent writers lose no update', async () => {
  const name = uniqueName('counter');
  const writers = Array.from({ length: 20 }, (_, i) =>
    client.catalog.readModifyWrite('persona', name, (document) => ({
      ...counted(document),
      writers: [...((document?.writers as number[] | undefined) ?? []), i],
    })),
  );
  await Promise.all(writers);
  const { document, generation } = await client.catalog.read('persona', name);
  expect({ generation, count: document.count }).toEqual({ generation: '20', count: 20 });
  expect((document.writers as number[]).sort((a, b) => a - b)).toEqual(
    Array.from({ length: 20 }, (_, i) => i),
  );
});

test('writers whose replies are lost write once each, although their documents are equal', async () => {
  const proxy = await FaultProxy.listen({ port: Number(new URL(server.url).port) });
  try {
    let requests = 0;
    const lossy = new MusterClient({
      url: proxy.url,
      apiKey: server.key,
      retries: { tries: 1_000, withinMs: 60_000, longestDelayMs: 200 },
      fetch: (input, init) => {
        requests += 1;
        return fetch(input, init);
      },
    });
    const name = uniqueName('counter');
    const writing = Promise.all(
      Array.from({ length: 10 }, () => lossy.catalog.readModifyWrite('persona', name, counted)),
    );
    for (let losses = 0; losses < 4; losses++) {
      proxy.set('one-way');
      await proxy.faults(5, 2_000);
      proxy.set('cut');
      proxy.set('through');
      const before = requests;
      const isOn = until(
        'requests that come through',
        async () => requests,
        (count) => count > before + 15,
      );
      await Promise.race([isOn.catch(() => {}), writing]);
    }
    await writing;
    const { document, generation } = await client.catalog.read('persona', name);
    expect({ generation, count: document.count }).toEqual({ generation: '10', count: 10 });
  } finally {
    await proxy.close();
  }
});
