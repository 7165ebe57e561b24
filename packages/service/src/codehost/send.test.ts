import type pg from 'pg';
import { expect, it } from 'vitest';
import { Metrics } from '../lib/metrics.ts';
import type { DueItem } from '../store/statements/outbox.ts';
import { HostError } from '../work/host-error.ts';
import { Outbox, type OutboxOptions } from '../work/outbox.ts';
import { TenantMasks } from '../work/tenant-masks.ts';
import type { HostThread } from './host.ts';
import { KnownThreads, threadsKey } from './known-threads.ts';
import { Sender, type SenderOptions } from './send.ts';

const item: DueItem = {
  ...{
    tenant: 1,
    id: 7,
    topic: 'codehost',
    target: 'host',
    lane: 'project-1',
    kind: 'comment',
    agent: null,
    key: 'paused/1',
  },
  data: { repo: 'team/project', subject: { type: 'issue', number: 1 }, body: 'Hello.' },
  ...{ marker: '', state: 'QUEUED', attempts: 0, error: '', created_at: new Date().toISOString() },
};

const outboxWith = (options: object): Outbox =>
  new Outbox({
    ...(options as OutboxOptions),
    topics: { codehost: new Sender(options as SenderOptions) },
    masks: new TenantMasks({ values: async () => [], earlierValues: async () => [] }),
    metrics: new Metrics(),
  });

/** What is written to the outbox after the host has refused an item with this status. */
async function writtenAfter(
  status: number,
  fields: Partial<DueItem> = {},
  text = 'no',
  path = async (repo: string) => repo,
): Promise<unknown> {
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
        host: { path, comment: () => Promise.reject(new HostError('refused', status, text)) },
      }),
    },
    log: { warn: () => {} },
  };
  await outboxWith(options).work({ ...item, ...fields });
  return written[0];
}

it('gives up an item that the host refuses', async () => {
  expect(await writtenAfter(422)).toEqual(['settle-outbox', 'FAILED']);
  expect(await writtenAfter(404)).toEqual(['settle-outbox', 'FAILED']);
  expect(await writtenAfter(403, {}, 'the issue is locked')).toEqual(['settle-outbox', 'FAILED']);
});

it('keeps an item that a permission is missing for, for thirty days', async () => {
  expect(await writtenAfter(403)).toEqual(['postpone-outbox', 'QUEUED']);
  const created_at = new Date(Date.now() - 31 * 24 * 3_600_000).toISOString();
  expect(await writtenAfter(403, { created_at })).toEqual(['settle-outbox', 'FAILED']);
});

it('keeps an item whose repository the credential does not reach', async () => {
  const path = () => Promise.reject(new HostError('refused', 404, 'not found'));
  expect(await writtenAfter(404, {}, 'not found', path)).toEqual(['postpone-outbox', 'QUEUED']);
});

it('does not read all threads again for each reply', async () => {
  const threads = new KnownThreads();
  const data = { repo: 'team/project', number: 1, threadId: 'T1', body: 'Done.' };
  const key = threadsKey({ tenant: 1, integration: 'host', repo: 'team/project', number: 1 });
  const place = { path: 'a.txt', line: 1, startLine: null, side: 'NEW', isResolved: false, canResolve: true };
  threads.note(key, [{ id: 'T1', ...place, comments: [] } as unknown as HostThread]);
  const called: string[] = [];
  const host = {
    threads: async () => called.push('threads'),
    reply: async () => ({ id: String(called.push('reply')), url: '' }),
  };
  const options = {
    ...{ threads, collectMs: 0, log: { warn: () => {} } },
    database: { query: async () => ({ rows: [] }) },
    integrations: { open: async () => ({ paused: false, host }) },
  };
  const outbox = outboxWith(options);
  for (let i = 0; i < 3; i++) await outbox.work({ ...item, kind: 'reply', data });
  expect(called).toEqual(['reply', 'reply', 'reply']);
});

it('keeps an item while the host does not accept the credential, for three days', async () => {
  expect(await writtenAfter(401)).toEqual(['postpone-outbox', 'QUEUED']);
  const created_at = new Date(Date.now() - 4 * 24 * 3_600_000).toISOString();
  expect(await writtenAfter(401, { created_at })).toEqual(['settle-outbox', 'FAILED']);
});
