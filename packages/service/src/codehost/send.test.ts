import type pg from 'pg';
import { expect, it } from 'vitest';
import type { DueItem } from '../store/statements/outbox.ts';
import { HostError } from './host.ts';
import { Sender, type SenderOptions } from './send.ts';

const item: DueItem = {
  ...{ tenant: 1, id: 7, target: 'host', lane: 'project-1', kind: 'comment', agent: null, key: 'paused/1' },
  data: { repo: 'team/project', subject: { type: 'issue', number: 1 }, body: 'Hello.' },
  ...{ marker: '', state: 'QUEUED', attempts: 0, created_at: new Date().toISOString() },
};

/** What is written to the outbox after the host has refused an item with this status. */
async function writtenAfter(status: number, fields: Partial<DueItem> = {}): Promise<unknown> {
  const written: unknown[] = [];
  const options = {
    database: {
      query: async ({ name, values }: pg.QueryConfig) => {
        written.push([name, values?.[2]]);
        return { rows: [] };
      },
    },
    integrations: {
      open: async () => ({
        paused: false,
        host: { comment: () => Promise.reject(new HostError('refused', status, 'no')) },
      }),
    },
    secretValues: async () => [],
    log: { warn: () => {} },
  };
  await new Sender(options as unknown as SenderOptions).send({ ...item, ...fields });
  return written[0];
}

it('gives up an item that the host refuses', async () => {
  expect(await writtenAfter(403)).toEqual(['settle-outbox', 'FAILED']);
});

it('keeps an item while the host does not accept the credential, for three days', async () => {
  expect(await writtenAfter(401)).toEqual(['postpone-outbox', 'QUEUED']);
  const created_at = new Date(Date.now() - 4 * 24 * 3_600_000).toISOString();
  expect(await writtenAfter(401, { created_at })).toEqual(['settle-outbox', 'FAILED']);
});
