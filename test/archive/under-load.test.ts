import { beforeAll, expect, test } from 'vitest';
import { Load } from '../crash/load.ts';
import type { Node } from '../crash/node.ts';
import { RetryingClient } from '../crash/retrying-client.ts';
import { lookInto } from '../crash/store.ts';
import { times } from '../crash/tier.ts';
import { muster, Places } from './archives.ts';

const places = new Places();
let node: Node;
beforeAll(async () => {
  node = await places.node({ env: { MUSTER_REHEARSAL_MS: '20' } });
});

test('an export under load is a consistent snapshot with everything that was acknowledged before', async () => {
  const load = new Load(new RetryingClient(node), 'busy');
  for (let i = 0; i < times('MUSTER_ARCHIVE_EXPORTS', 1); i += 1) {
    load.open();
    await load.more(30);
    const followUps = load.followUps.map(({ reply }) => reply.followUpId);
    const before = load.acknowledged;
    const file = places.path('busy.gz');
    expect(await muster(['export', '-f', file], node.server.env)).toMatchObject({ code: 0 });
    expect(load.acknowledged, 'writes continued').toBeGreaterThan(before);
    await load.close();

    const url = await places.importedDatabase(file);
    await lookInto(url, async (store) => {
      expect(await store.violations()).toEqual([]);
      expect(await store.missing('follow_ups', 'id', followUps)).toEqual([]);
      expect(await store.count('SELECT FROM timeline')).toBeGreaterThan(followUps.length);
    });
  }
});
