import Fastify from 'fastify';
import { expect, test } from 'vitest';
import type { Principal } from '../control/access/principal.ts';
import { Wakes } from '../control/watching/wakes.ts';
import { Metrics } from '../lib/metrics.ts';
import type { RouteContext } from './context.ts';
import { OpenReplies } from './key-limits.ts';
import { eventStream, type StreamedEvent } from './long-reply.ts';

const metrics = new Metrics();
const warnings: unknown[] = [];
const context = {
  openReplies: new OpenReplies(metrics, new AbortController().signal),
  control: { wakes: new Wakes() },
  acknowledgedBytes: { bytesOf: async () => null },
  keepAliveMs: 60_000,
  log: { warn: (fields: unknown) => warnings.push(fields) },
} as unknown as RouteContext;
const caller = { keyId: 'one', role: 'admin', tenant: { id: 1 } } as Principal;

/** What a client of a timeline stream gets of these events. */
async function streamed(...events: StreamedEvent[]): Promise<string> {
  const app = Fastify();
  app.get('/', async (_request, reply) => {
    await eventStream(context, 'timelineStream', caller, reply, ({ send }) => send(...events));
    return reply;
  });
  const { body } = await app.inject('/');
  await app.close();
  return body;
}

const entry = {
  sequence: '1',
  at: '2026-01-31T09:00:00.000Z',
  runId: '1',
  type: 'MESSAGE',
  followUpId: '',
  text: 'Hello',
  data: { key: 'a' },
};
const partial = { runId: '1', key: 'a', type: 'MESSAGE', offset: 0, text: 'He' };
const secret = { internal: 'not for callers' };

test('an event has the fields of its schema and no others, like a reply', async () => {
  const text = await streamed(
    { id: '1', type: 'MESSAGE', data: { ...entry, ...secret } },
    { type: 'partial', data: { ...partial, ...secret } },
  );
  expect(text).toBe(
    `: open\n\nid: 1\nevent: MESSAGE\ndata: ${JSON.stringify(entry)}\n\nevent: partial\ndata: ${JSON.stringify(partial)}\n\n`,
  );
});

test('an event that lacks a field of its schema ends the stream, with a warning in the log', async () => {
  const { text: _, ...rest } = entry;
  expect(await streamed({ id: '1', type: 'MESSAGE', data: rest })).toBe(': open\n\n');
  expect(warnings).toMatchObject([{ err: { message: '"text" is required!' } }]);
});
