import { once } from 'node:events';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { type AgentStatus, routes } from '@muster/sdk/contract';
import type { FastifyReply } from 'fastify';
import type { Principal } from '../control/access/principal.ts';
import { isRefusal, type Refusal } from '../control/refusal.ts';
import type { Waited } from '../control/watching/waits.ts';
import type { ReplySignal } from '../control/watching/wakes.ts';
import type { RouteContext } from './context.ts';
import { HttpError } from './errors.ts';
import { alreadySent, type HttpCall } from './route.ts';

/**
 * A signal that aborts when a long reply must end early: the client disconnects, the service shuts down, or the key
 * stops working. The reply counts as one of its kind, which watches this number of agents, until its release.
 */
export function abortSignal(
  { openReplies, control: { wakes } }: RouteContext,
  caller: Principal,
  reply: FastifyReply,
  kind: 'wait' | 'stream' | 'poll' | null,
  watchedAgents = 1,
): { readonly signal: ReplySignal; release(): void } {
  const controller = new AbortController();
  const abort = (reason: ReplySignal['reason']) => () => controller.abort(reason);
  const releases = [
    ...(kind ? [openReplies.open(caller, kind, watchedAgents)] : []),
    whenClosed(reply, abort('disconnected')),
    openReplies.whenClosing(abort('closing')),
    ...(caller.session ? [wakes.watchSession(caller.session, abort('revoked'))] : []),
  ];
  // The key of a run ends with the run, as the phase of its agent shows. Other keys are looked up once a second.
  if (caller.role === 'agent' && caller.agent?.id) {
    const own = { tenant: caller.agent.tenant, id: caller.agent.id };
    releases.push(wakes.watchAgent(own, ({ phase }) => phase !== 'PHASE_RUNNING' && abort('revoked')()));
  } else if (caller.tenant.id !== 0) releases.push(wakes.watchKey(caller.keyId, abort('revoked')));
  return {
    signal: controller.signal,
    release: () => {
      for (const release of releases) release();
    },
  };
}

/**
 * Calls back when the reply or its connection closes, or immediately if it is closed already: a client may disconnect
 * while its key is looked up. The connection is watched too, because a request that was pipelined behind another one
 * gets no close event as long as the other one is open. Returns how to unsubscribe.
 */
export function whenClosed({ raw, request }: FastifyReply, listener: () => void): () => void {
  const { socket } = request.raw;
  const unsubscribe = () => {
    raw.off('close', onClose);
    socket.off('close', onClose);
  };
  const onClose = () => {
    unsubscribe();
    listener();
  };
  if (raw.destroyed || socket.destroyed) listener();
  else {
    raw.on('close', onClose);
    // One listener for each request on this connection.
    socket.setMaxListeners(0).on('close', onClose);
  }
  return unsubscribe;
}

/**
 * Calls `beat` in every keep-alive interval, which writes a few bytes, and closes the connection of a client that no
 * longer receives. If the client stopped reading, a write makes no progress for two intervals. If the client vanished,
 * it has acknowledged nothing since the last beat. Returns how to stop.
 */
function keepAlive(context: RouteContext, reply: FastifyReply, beat: () => void): () => void {
  const { keepAliveMs, acknowledgedBytes } = context;
  const { socket } = reply.request.raw;
  let before: number | null = null;
  let isStopped = false;
  // Every write restarts this timeout, and so does every part of a write that the kernel takes.
  reply.raw.setTimeout(2 * keepAliveMs, () => reply.raw.writableLength > 0 && reply.raw.destroy());
  const check = async (): Promise<void> => {
    const bytes = await acknowledgedBytes.bytesOf(socket);
    if (isStopped) return;
    if (bytes !== null && bytes === before) return void reply.raw.destroy();
    before = bytes;
    if (reply.raw.writableLength === 0) beat();
    // Not by the clock: on a busy machine the client must still get an interval to acknowledge the beat.
    timer = setTimeout(check, keepAliveMs);
  };
  let timer = setTimeout(check, keepAliveMs);
  return () => {
    isStopped = true;
    clearTimeout(timer);
  };
}

function writeHead(reply: FastifyReply, headers: Readonly<Record<string, string>>): void {
  reply.hijack();
  reply.raw.writeHead(200, { ...(reply.getHeaders() as Record<string, string>), ...headers });
}

/**
 * The reply to a wait, which may take arbitrarily long. White space in every keep-alive interval keeps proxies from
 * closing it. Before the first white space a failure is an ordinary error; later the connection can only be closed, and
 * the client retries.
 */
export async function replyToWait(
  context: RouteContext,
  { caller, body, reply }: Pick<HttpCall<'wait'>, 'caller' | 'body' | 'reply'>,
  waited: Waited | Refusal,
): Promise<AgentStatus | Refusal | typeof alreadySent> {
  if (isRefusal(waited)) return waited;
  const timeoutMs = body.timeoutSeconds && body.timeoutSeconds * 1000;
  const watchedAgents = 'agents' in waited ? waited.agents.length : 1;
  const { signal, release } = abortSignal(context, caller, reply, 'wait', watchedAgents);
  let hasBegun = false;
  const stopKeepAlive = keepAlive(context, reply, () => {
    if (!hasBegun) writeHead(reply, { 'content-type': 'application/json; charset=utf-8' });
    hasBegun = true;
    reply.raw.write(' ');
  });
  try {
    const result = await context.control.waits.wait(caller, waited, signal, timeoutMs);
    if (!hasBegun) {
      if (result !== null) return result;
      throw abortError(signal);
    }
    if (result === null || isRefusal(result)) reply.raw.destroy();
    else reply.raw.end(reply.serializeInput(result, routes.wait.reply));
    return alreadySent;
  } catch (error) {
    if (!hasBegun) throw error;
    context.log.warn({ err: error }, 'wait failed');
    reply.raw.destroy();
    return alreadySent;
  } finally {
    stopKeepAlive();
    release();
  }
}

function abortError({ reason }: ReplySignal): HttpError {
  if (reason === 'revoked')
    return new HttpError('UNAUTHENTICATED', 'the key was revoked or has expired, or the session was ended');
  if (reason === 'disconnected') return new HttpError('CANCELLED', 'the client disconnected');
  return new HttpError('UNAVAILABLE', 'the service is shutting down; try again', [], { 'retry-after': '1' });
}

export interface StreamedEvent {
  readonly id?: string;
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface EventStream {
  readonly signal: AbortSignal;
  /** Resolves when the client is ready for more. */
  send(...events: readonly StreamedEvent[]): Promise<void>;
}

/** A comment, which clients skip. */
const aliveEvent = ': alive\n\n';

/**
 * A stream of Server-Sent Events, open until the client disconnects or `work` returns. Like a reply, an event has exactly
 * the fields that the contract says.
 */
export async function eventStream(
  context: RouteContext,
  name: 'listStream' | 'timelineStream',
  caller: Principal,
  reply: FastifyReply,
  work: (stream: EventStream) => Promise<void>,
): Promise<typeof alreadySent> {
  const { signal, release } = abortSignal(context, caller, reply, 'stream');
  writeHead(reply, { 'content-type': 'text/event-stream; charset=utf-8', 'x-accel-buffering': 'no' });
  reply.raw.write(': open\n\n');
  const stopKeepAlive = keepAlive(context, reply, () => reply.raw.write(aliveEvent));
  const { reply: entry, otherEvent } = routes[name];
  const eventText = ({ id, type, data }: StreamedEvent): string => {
    const text = reply.serializeInput(data, type === otherEvent.name ? otherEvent.data : entry);
    return `${id === undefined ? '' : `id: ${id}\n`}event: ${type}\ndata: ${text}\n\n`;
  };
  const send: EventStream['send'] = async (...events) => {
    if (events.length === 0) return;
    const hasRoom = reply.raw.write(events.map(eventText).join(''));
    if (!hasRoom) await once(reply.raw, 'drain', { signal }).catch(() => {});
  };
  try {
    await work({ signal, send });
  } catch (error) {
    if (!signal.aborted) context.log.warn({ err: error }, 'event stream failed');
  } finally {
    stopKeepAlive();
    release();
    reply.raw.end();
  }
  return alreadySent;
}

/** Sends a response whose body is a stream of Server-Sent Events. */
export async function relayEvents(
  context: RouteContext,
  reply: FastifyReply,
  { status, headers, body }: Response,
): Promise<void> {
  reply.hijack();
  reply.raw.writeHead(status, Object.fromEntries(headers));
  const stopKeepAlive = keepAlive(context, reply, () => reply.raw.write(aliveEvent));
  try {
    await pipeline(Readable.fromWeb(body as ReadableStream), reply.raw);
  } catch (error) {
    if (!reply.raw.destroyed) context.log.warn({ err: error }, 'event stream failed');
  } finally {
    stopKeepAlive();
  }
}
