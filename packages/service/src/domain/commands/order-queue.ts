import { type AgentState, type FollowUp, isLive } from '../agent.ts';
import { type Decide, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { invalid, precondition, type Refusal } from '../refusal.ts';

export interface OrderQueue {
  readonly type: 'order';
  /** Every queued message, in the new order. */
  readonly followUpIds: readonly string[];
}

/** The timeline names the first ones only: a queue may be long. */
const loggedIds = 100;

/**
 * Reorders the queue. The request names every queued message, so an order that was decided on an older queue is refused
 * and nothing overtakes a message that its author had not seen.
 *
 * The messages swap positions. One that is offered to the turn that is running keeps its own: the runner names it by its
 * position when it reports whether the harness took it.
 */
export const orderQueue: Decide<OrderQueue, { followUpIds: string[] }> = (loaded, { followUpIds }, state) => {
  const draft = Draft.of(state, loaded.now);
  const queue = draft.queue();
  const refused = refuseOrder(followUpIds, queue, state);
  if (refused) return refused;
  const isOffered = offeredIn(state);
  const movable = queue.filter((message) => !isOffered(message));
  const places = new Map(followUpIds.map((id, place) => [id, place]));
  const placeOf = ({ id }: FollowUp) => places.get(id) ?? 0;
  const moved = movable.toSorted((a, b) => placeOf(a) - placeOf(b));
  const order = () => draft.queue().map(({ id }) => id);
  if (moved.every((message, i) => message === movable[i])) return unchanged({ followUpIds: order() });
  moved.forEach((message, i) => {
    draft.followUps.set(message.id, { ...message, position: movable[i]?.position ?? message.position });
  });
  draft.log('QUEUE_ORDERED', { data: { followUpIds: order().slice(0, loggedIds) } });
  return decided(loaded, { followUpIds: order() }, [draft]);
};

const offeredIn =
  ({ agent, run }: AgentState) =>
  ({ steerBatch }: FollowUp): boolean =>
    steerBatch !== null && isLive(run) && steerBatch === agent.memory.batch?.id;

function refuseOrder(
  ids: readonly string[],
  queue: readonly FollowUp[],
  { agent, followUps }: AgentState,
): Refusal | null {
  const queued = new Set(queue.map(({ id }) => id));
  const named = new Set<string>();
  for (const [i, id] of ids.entries()) {
    const field = `followUpIds[${i}]`;
    if (named.has(id)) return invalid(field, `"${id}" is named twice`);
    named.add(id);
    if (queued.has(id)) continue;
    const why = agent.memory.batch?.followUpIds.includes(id)
      ? 'was delivered already'
      : followUps.get(id)?.state === 'DEFERRED'
        ? 'is scheduled; only queued messages have an order'
        : 'is not queued: it was delivered, removed or cleared, or belongs to another agent';
    return precondition('QUEUE_CHANGED', id, `${field}: "${id}" ${why}`);
  }
  const missing = queue.find(({ id }) => !named.has(id));
  return missing
    ? precondition(
        'QUEUE_CHANGED',
        missing.id,
        `followUpIds: expected all ${queue.length} queued messages; "${missing.id}" is missing`,
      )
    : null;
}
