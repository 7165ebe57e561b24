import type pg from 'pg';
import { inTransaction } from '../store/connection.ts';
import { pauseHook, recipientOf } from '../store/statements/deliveries.ts';
import { recordEvents } from '../store/statements/events.ts';

/** Pauses a trigger until its document is written again. */
export const pauseTrigger = (
  database: pg.Pool,
  tenant: number,
  { name, createdBy }: { readonly name: string; readonly createdBy: string },
  reason: string,
): Promise<void> =>
  inTransaction(database, async (client) => {
    const [paused] = await pauseHook(client, tenant, recipientOf('trigger', name), reason.slice(0, 1000));
    const data = { name, text: reason.slice(0, 1000) };
    if (paused) await recordEvents(client, [{ tenant, type: 'trigger.paused', account: createdBy, data }]);
  });
