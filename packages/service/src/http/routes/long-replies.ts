import { type BodyOf, routes, type Schema } from '@muster/sdk/contract';
import { invalid, isRefusal } from '../../control/refusal.ts';
import { streamList, streamTimeline } from '../../control/watching/streams.ts';
import type { RouteContext } from '../context.ts';
import { abortSignal, eventStream, replyToWait } from '../long-reply.ts';
import { checked } from '../request-body.ts';
import { type HttpCall, serve } from '../route.ts';

/** Routes whose reply stays open: waits, event streams and the polls of runners. */
export function longReplyRoutes(context: RouteContext): void {
  const { control } = context;

  serve(context, 'wait', async (call) =>
    replyToWait(context, call, await control.waits.waitedTurn(call.caller, call.body)),
  );
  serve(context, 'waitMany', async (call) =>
    replyToWait(context, call, await control.waits.waitedAgents(call.caller, call.body)),
  );

  const serveList = async (
    { caller, reply }: Pick<HttpCall<'listStream'>, 'caller' | 'reply'>,
    body: BodyOf<'listStream'>,
  ) => {
    const query = await control.lists.query(caller, body);
    if (isRefusal(query)) return query;
    return eventStream(context, 'listStream', caller, reply, ({ signal, send }) =>
      streamList(control, query, {
        signal,
        show: (entries) => send(...entries.map((data) => ({ type: 'entry', data }))),
        endOfList: () => send({ type: 'whole', data: {} }),
      }),
    );
  };
  serve(context, 'listStream', (call) => serveList(call, call.body));
  serve(context, 'listStreamByGet', (call) => serveList(call, bodyOf('listStream', call.query)));

  const serveTimeline = async (
    { caller, request, reply }: Pick<HttpCall<'timelineStream'>, 'caller' | 'request' | 'reply'>,
    { agentId, afterSequence = 0 }: BodyOf<'timelineStream'>,
  ) => {
    const lastEventId = request.headers['last-event-id'];
    const after = String(lastEventId || afterSequence);
    if (!/^\d{1,15}$/.test(after))
      return invalid(
        lastEventId ? 'Last-Event-ID' : 'afterSequence',
        `must be the sequence of an entry, a number; got ${JSON.stringify(after.slice(0, 100))}`,
      );
    const agent = await control.targets.find(caller, agentId);
    if (isRefusal(agent)) return agent;
    const first = await control.reads.timeline(agent, { after: Number(after) }, 1);
    if (isRefusal(first)) return first;
    return eventStream(context, 'timelineStream', caller, reply, ({ signal, send }) =>
      streamTimeline(control, agent, Number(after), {
        signal,
        send: (entry) => send({ id: entry.sequence, type: entry.type, data: entry }),
        sendPartial: (partial) => send({ type: 'partial', data: partial }),
      }),
    );
  };
  serve(context, 'timelineStream', (call) => serveTimeline(call, call.body));
  serve(context, 'timelineStreamByGet', (call) => serveTimeline(call, bodyOf('timelineStream', call.query)));

  serve(context, 'runnerPoll', async ({ caller, body, reply }) => {
    const { signal, release } = abortSignal(context, caller, reply, 'poll');
    return control.runners.poll(caller, body, signal).finally(release);
  });
}

type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** EventSource can only send a query, and an upload has no JSON body. This is the body for a query. */
export const bodyOf = <N extends 'listStream' | 'timelineStream' | 'status'>(
  name: N,
  query: Query,
): BodyOf<N> => checked(valueIn(query, routes[name].body, []), routes[name].body) as BodyOf<N>;

/** The value of a field that may have these names. The fields of a parent always have their whole name. */
function valueIn(query: Query, schema: Schema, names: readonly string[]): unknown {
  const { type, properties, items, additionalProperties } = schema;
  if (properties) {
    const isParent = names[0]?.startsWith('parentId');
    const fields = Object.entries(properties).map(([key, field]) => {
      const whole = names.map((name) => `${name}.${key}`);
      return [key, valueIn(query, field, isParent ? whole : [...whole, key])];
    });
    return Object.fromEntries(fields);
  }
  const value = names.map((name) => query[name]).find((found) => found !== undefined);
  if (value === undefined) return undefined;
  if (type === 'boolean') return value === 'true';
  // `labels=key=value`, repeated for each label. A key has no `=`.
  if (additionalProperties)
    return Object.fromEntries([value].flat().map((label) => /^([^=]*)=?(.*)$/s.exec(label)?.slice(1) ?? []));
  if (items?.enum) return String(value).split(',');
  // A path: `agent=a/b`, or `agent=a&agent=b`.
  if (items && typeof value === 'string') return value === '' ? undefined : value.split('/');
  return value;
}
