import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import type { Schema } from '@muster/sdk/contract';
import type { FastifyReply } from 'fastify';
import type { Principal } from '../control/principal.ts';
import { isRefusal, type Refusal } from '../control/refusal.ts';
import type { RouteContext } from './context.ts';
import { EdgeError } from './errors.ts';
import { answered } from './route.ts';

/** Why a long reply was cut short. */
type Cut = 'gone' | 'closing' | 'revoked';

/**
 * Ties a long reply to everything that may end it early: the client goes away, the service shuts down, or the key
 * stops working. `release` lets go of all of it.
 */
export function cutter(
  context: RouteContext,
  caller: Principal,
  reply: FastifyReply,
): { readonly signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  const cut = (why: Cut) => () => controller.abort(why);
  const { openReplies, control } = context;
  const endClosed = whenClosed(reply, cut('gone'));
  const endClosing = openReplies.whenClosing(cut('closing'));
  // A run's key dies with the run, which its agent's phase tells; other keys are looked up once a second.
  const own =
    caller.role === 'agent' && caller.agent?.id ? { tenant: caller.agent.tenant, id: caller.agent.id } : null;
  const unwatch = own
    ? control.wakes.watchAgent(own, ({ phase }) => phase !== 'PHASE_RUNNING' && controller.abort('revoked'))
    : caller.tenant.id === 0
      ? () => {}
      : control.wakes.watchKey(caller.keyId, cut('revoked'));
  const unwatchSession = caller.session
    ? control.wakes.watchSession(caller.session, cut('revoked'))
    : () => {};
  return {
    signal: controller.signal,
    release: () => {
      endClosed();
      endClosing();
      unwatch();
      unwatchSession();
    },
  };
}

/**
 * Calls back once the reply or its connection is closed; also when that was before, because a client may be gone by the
 * time its key has been looked up. The connection is watched as well: a request that was sent behind another one on the
 * same connection has no close event of its own as long as the other one is open. The returned function ends this.
 */
export function whenClosed({ raw, request }: FastifyReply, listener: () => void): () => void {
  const { socket } = request.raw;
  const end = () => {
    raw.off('close', onClose);
    socket.off('close', onClose);
  };
  const onClose = () => {
    end();
    listener();
  };
  if (raw.destroyed || socket.destroyed) listener();
  else {
    raw.on('close', onClose);
    // As many as there are requests on this connection.
    socket.setMaxListeners(0).on('close', onClose);
  }
  return end;
}

/**
 * Calls `beat` every keep-alive interval, which writes a few bytes, and closes the connection of a client that takes
 * nothing any more. One that stopped reading: a write makes no progress for two intervals. One that vanished: it has
 * acknowledged nothing since the last beat. The returned function ends this.
 */
function keepAlive(context: RouteContext, reply: FastifyReply, beat: () => void): () => void {
  const { keepAliveMs, acknowledged } = context;
  const { socket } = reply.request.raw;
  let before: number | null = null;
  let isOver = false;
  // This time starts again with every write, and when the kernel takes a part of one.
  reply.raw.setTimeout(2 * keepAliveMs, () => reply.raw.writableLength > 0 && reply.raw.destroy());
  const timer = setInterval(async () => {
    const bytes = await acknowledged.bytesOf(socket);
    if (isOver) return;
    if (bytes !== null && bytes === before) return reply.raw.destroy();
    before = bytes;
    if (reply.raw.writableLength === 0) beat();
  }, keepAliveMs);
  return () => {
    isOver = true;
    clearInterval(timer);
  };
}

/**
 * A reply that may take for ever. White space every 15 s keeps proxies from closing it; JSON does not mind. Before the
 * first of it a failure is an ordinary error; after it the connection can only be cut, and clients try again.
 */
export async function longReply<T>(
  context: RouteContext,
  caller: Principal,
  reply: FastifyReply,
  schema: Schema,
  work: (signal: AbortSignal) => Promise<T | Refusal | null>,
  watchedAgents = 1,
): Promise<T | Refusal | typeof answered> {
  const closed = context.openReplies.open(caller, 'wait', watchedAgents);
  const { signal, release } = cutter(context, caller, reply);
  let hasBegun = false;
  const endKeepAlive = keepAlive(context, reply, () => {
    if (!hasBegun) {
      hasBegun = true;
      reply.hijack();
      reply.raw.writeHead(200, {
        ...(reply.getHeaders() as Record<string, string>),
        'content-type': 'application/json; charset=utf-8',
      });
    }
    reply.raw.write(' ');
  });
  try {
    const result = await work(signal);
    const failed = result === null || isRefusal(result);
    if (!hasBegun) {
      if (result !== null) return result;
      throw cutError(signal.reason as Cut);
    }
    if (failed) reply.raw.destroy();
    else
      reply.raw.end(
        reply.serializeInput(result as Record<string, unknown>, schema as Record<string, unknown>),
      );
    return answered;
  } catch (error) {
    if (!hasBegun) throw error;
    context.log.warn({ err: error }, 'wait failed');
    reply.raw.destroy();
    return answered;
  } finally {
    endKeepAlive();
    closed();
    release();
  }
}

function cutError(why: Cut): EdgeError {
  if (why === 'revoked')
    return new EdgeError('UNAUTHENTICATED', 'the key was revoked or has expired, or the session was ended');
  if (why === 'gone') return new EdgeError('CANCELLED', 'the client went away');
  return new EdgeError('UNAVAILABLE', 'the service is shutting down; try again', [], { 'retry-after': '1' });
}

export interface StreamedEvent {
  readonly id?: string;
  readonly type?: string;
  readonly data: unknown;
}

export interface EventStream {
  readonly signal: AbortSignal;
  /** Waits while the client is slower than the events. */
  send(...events: readonly StreamedEvent[]): Promise<void>;
}

/** A comment: readers of Server-Sent Events skip it. */
const aliveEvent = ': alive\n\n';

/** A stream of Server-Sent Events, open until the client leaves or `work` returns. */
export async function eventStream(
  context: RouteContext,
  caller: Principal,
  reply: FastifyReply,
  work: (stream: EventStream) => Promise<void>,
): Promise<typeof answered> {
  const closed = context.openReplies.open(caller, 'stream');
  const { signal, release } = cutter(context, caller, reply);
  reply.hijack();
  reply.raw.writeHead(200, {
    ...(reply.getHeaders() as Record<string, string>),
    'content-type': 'text/event-stream; charset=utf-8',
    'x-accel-buffering': 'no',
  });
  reply.raw.write(': open\n\n');
  const endKeepAlive = keepAlive(context, reply, () => reply.raw.write(aliveEvent));
  const send: EventStream['send'] = async (...events) => {
    if (events.length === 0) return;
    const hasRoom = reply.raw.write(events.map(eventText).join(''));
    if (!hasRoom && !signal.aborted) await drained(reply, signal);
  };
  try {
    await work({ signal, send });
  } catch (error) {
    if (!signal.aborted) context.log.warn({ err: error }, 'a stream broke');
  } finally {
    endKeepAlive();
    closed();
    release();
    reply.raw.end();
  }
  return answered;
}

/** Sends Server-Sent Events that are already written, as they come. */
export async function relayEvents(
  context: RouteContext,
  reply: FastifyReply,
  { status, headers, body }: Response,
): Promise<void> {
  reply.hijack();
  reply.raw.writeHead(status, Object.fromEntries(headers));
  const endKeepAlive = keepAlive(context, reply, () => reply.raw.write(aliveEvent));
  try {
    await pipeline(Readable.fromWeb(body as ReadableStream), reply.raw);
  } catch (error) {
    if (!reply.raw.destroyed) context.log.warn({ err: error }, 'event stream failed');
  } finally {
    endKeepAlive();
  }
}

function eventText({ id, type, data }: StreamedEvent): string {
  const lines = [id && `id: ${id}`, type && `event: ${type}`, `data: ${JSON.stringify(data)}`];
  return `${lines.filter(Boolean).join('\n')}\n\n`;
}

const drained = (reply: FastifyReply, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const done = () => {
      reply.raw.off('drain', done);
      signal.removeEventListener('abort', done);
      resolve();
    };
    reply.raw.on('drain', done);
    signal.addEventListener('abort', done);
  });
