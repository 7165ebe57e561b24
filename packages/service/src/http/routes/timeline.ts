import type { BodyOf } from '@muster/sdk/contract';
import { invalid, isRefusal } from '../../control/refusal.ts';
import { streamTimeline } from '../../control/streams.ts';
import type { RouteContext } from '../context.ts';
import { eventStream } from '../long-reply.ts';
import { type Call, serve } from '../route.ts';
import { timelineBodyOf } from '../stream-query.ts';

export function timelineRoutes(context: RouteContext): void {
  const { control } = context;

  serve(context, 'timeline', ({ caller, body }) => control.timeline(caller, body));

  const stream = async (
    { caller, request, reply }: Pick<Call<'timelineStream'>, 'caller' | 'request' | 'reply'>,
    body: BodyOf<'timelineStream'>,
  ) => {
    const lastEventId = request.headers['last-event-id'];
    const from = String(lastEventId || (body.afterSequence ?? 0));
    if (!/^\d{1,15}$/.test(from)) {
      return invalid(lastEventId ? 'Last-Event-ID' : 'afterSequence', 'must be the sequence of an entry');
    }
    const agent = await control.find(caller, body.agentId);
    if (isRefusal(agent)) return agent;
    const first = await control.reads.timeline(agent, { after: Number(from) }, 1);
    if (isRefusal(first)) return first;

    return eventStream(context, caller, reply, ({ signal, send }) =>
      streamTimeline(control, agent, Number(from), {
        signal,
        send: (entry) => send({ id: entry.sequence, type: entry.type, data: entry }),
      }),
    );
  };

  serve(context, 'timelineStream', (call) => stream(call, call.body));
  serve(context, 'timelineStreamByGet', (call) => stream(call, timelineBodyOf(call.query)));
}
