import {
  type FollowUpState,
  isTerminal,
  limits,
  type OwnModels,
  reasonRow,
  type Task,
} from '@muster/sdk/contract';
import {
  type Agent,
  type AgentState,
  type FollowUp,
  isLive,
  isUndelivered,
  type SettingsChange,
} from '../agent.ts';
import { abandonBatch, runningBatch } from '../batch.ts';
import { refuseSize, refuseTasks } from '../checklist.ts';
import { type Decide, type Decision, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { refusePolicy } from '../policy.ts';
import {
  agentEnded,
  alreadyExists,
  exhausted,
  invalid,
  isRefusal,
  precondition,
  type Refusal,
  refuseDescription,
} from '../refusal.ts';
import { admitReview, discardFollowUp } from '../review.ts';
import { applied, overrides, refuseSettings } from '../settings.ts';
import { endBudgetStop, pend, pendNow, resettle } from '../settle.ts';
import type { Review } from '../thread.ts';
import { reopen } from './reopen-agent.ts';

export interface QueueFollowUp {
  readonly type: 'queue';
  readonly followUpId: string;
  readonly description: string;
  readonly tasks: readonly Task[];
  /** Images of this agent. */
  readonly attachmentIds?: readonly string[];
  readonly change: SettingsChange;
  /** The model names that the operator added. */
  readonly ownModels?: OwnModels;
  readonly preempt: boolean;
  readonly replace: boolean;
  readonly deliverAt: string | null;
  /** It is to be added to the turn that is running. */
  readonly steer?: boolean;
  readonly digest: string;
  /** Comments on the agent's changes: the message quotes them, and has a task for each thread. */
  readonly review?: Review;
  /** An agent that finished or failed is reopened. */
  readonly reopen?: true;
  /** An agent or a trigger sent it, not a person. */
  readonly byAgent?: boolean;
  /** Of the request. */
  readonly traceparent?: string | undefined;
  /** The service generated the id for this message, so that no other message has it. */
  readonly minted?: boolean;
}

const deferMs = limits.deferDays * 24 * 3600 * 1000;

export interface Queued {
  readonly followUpId: string;
  readonly state: FollowUpState;
  /** When it is delivered at the earliest; null if nothing delays it. */
  readonly wakesAt: string | null;
}

/**
 * Admits a follow-up. A known id is answered before every other check and repeats nothing. `replace` takes back an
 * undelivered one of other content, and this one comes last.
 */
export const queueFollowUp: Decide<QueueFollowUp, Queued> = (loaded, command, state) => {
  const { followUpId } = command;
  const answer = answerKnown(command, state, loaded.now);
  if (answer) return answer;
  const known = state.followUps.get(followUpId);
  const replaced = command.replace && known && isUndelivered(known) ? known : null;
  const draft = Draft.of(state, loaded.now);
  const isFinal = command.reopen && isTerminal(state.agent.phase) ? reopen(draft, loaded) : null;
  if (isFinal) return isFinal;
  if (replaced) {
    discardFollowUp(draft, replaced, 'REMOVED', { text: 'replaced', data: { reason: 'REPLACED' } });
    if (draft.agent.memory.preemptedBy === followUpId) draft.remember({ preemptedBy: null });
  }
  const message = command.review ? withReview(draft, command, command.review, known) : command;
  if (message === null) return unchanged({ followUpId, state: known?.state ?? 'REMOVED', wakesAt: null });
  if (isRefusal(message)) return message;
  const refused =
    refuseMessage(message) ??
    refuse(message, draft.state, loaded.now) ??
    // A message of a code host or of a review is not lost: its run is refused when it is claimed.
    (command.reopen
      ? null
      : refusePolicy(applied(state.agent.settings, command.change), loaded.policies(state.agent.id)));
  if (refused) return refused;

  if (command.preempt) preempt(draft, followUpId);
  const { change, attachmentIds = [] } = command;
  const admittedAs = command.deliverAt ? 'DEFERRED' : 'QUEUED';
  const steerBatch = command.steer ? runningBatch(draft.state) : null;
  draft.admit(
    {
      id: followUpId,
      state: admittedAs,
      position: 0,
      change: overrides(change) ? change : null,
      tasks: message.tasks,
      deliverAt: command.deliverAt,
      queuedAt: loaded.now,
      batch: null,
      steerBatch,
      attachmentIds,
      digest: command.digest,
    },
    { description: message.description, traceparent: command.traceparent },
    admittedAs,
    {
      ...(command.byAgent && { byAgent: true }),
      ...(steerBatch !== null && { steer: true }),
      ...(attachmentIds.length > 0 && { attachmentIds }),
    },
  );
  if (replaced) resettle(draft, loaded.children(draft.agent.id));
  else if (command.deliverAt) defer(draft, command.deliverAt);
  if (!command.deliverAt) wake(draft);
  const admitted = { id: followUpId, state: admittedAs, deliverAt: command.deliverAt } as const;
  return decided(loaded, queued(draft.agent, admitted, loaded.now), [draft]);
};

/** A message that is refused, unless its id is known: it may have been admitted before. */
export interface RepeatFollowUp extends Pick<QueueFollowUp, 'followUpId' | 'digest' | 'replace'> {
  readonly type: 'repeat';
}

/** Null if the id is not known. */
export const repeatFollowUp: Decide<RepeatFollowUp, Queued | null> = (loaded, command, state) =>
  answerKnown(command, state, loaded.now) ?? unchanged(null);

/** Null if the id is free: unknown, or that of a message which was removed or cleared. */
function answerKnown(
  { followUpId, digest, replace, reopen }: Omit<RepeatFollowUp, 'type'> & Pick<QueueFollowUp, 'reopen'>,
  { followUps, agent }: AgentState,
  now: string,
): Decision<Queued> | null {
  const known = followUps.get(followUpId);
  const isEnded = isTerminal(agent.phase) && !reopen;
  if (!known || known.state === 'REMOVED' || (known.state === 'CLEARED' && !isEnded)) return null;
  if (known.digest === digest) return unchanged(queued(agent, known, now));
  if (replace && isUndelivered(known)) return null;
  return replace && known.state === 'DELIVERED'
    ? precondition('FOLLOW_UP_DELIVERED', followUpId, `followUpId: "${followUpId}" was delivered already`)
    : alreadyExists(`followUpId: "${followUpId}" names another message of this agent`);
}

/** The message with what it says about threads; null if there is nothing new to say. */
function withReview(
  draft: Draft,
  command: QueueFollowUp,
  review: Review,
  known: FollowUp | undefined,
): QueueFollowUp | Refusal | null {
  const wasAdmitted = known !== undefined && known.digest === command.digest;
  const admitted = admitReview(draft, review, command, wasAdmitted);
  if (admitted === null || isRefusal(admitted)) return admitted;
  return { ...command, description: admitted.description, tasks: [...command.tasks, ...admitted.tasks] };
}

function queued(
  { claimableAt }: Agent,
  { id, state, deliverAt }: Pick<FollowUp, 'id' | 'state' | 'deliverAt'>,
  now: string,
): Queued {
  const isDelayed = state === 'QUEUED' && claimableAt !== null && claimableAt > now;
  const wakesAt = state === 'DEFERRED' ? deliverAt : isDelayed ? claimableAt : null;
  return { followUpId: id, state, wakesAt };
}

function defer(draft: Draft, deliverAt: string): void {
  const { nextDeliverAt, phase, reason } = draft.agent;
  const isSooner = nextDeliverAt === null || deliverAt < nextDeliverAt;
  if (isSooner) draft.set({ nextDeliverAt: deliverAt });
  if (reason === 'RESTING') draft.move(phase, 'DEFERRED');
}

/** A message starts a run immediately where the agent is idle, is BLOCKED or waits for its children. It may change the model. */
function wake(draft: Draft): void {
  const { phase, reason } = draft.agent;
  if (phase === 'PHASE_WAITING_FOR_INPUT' && reason === 'BUDGET') endBudgetStop(draft);
  if (phase === 'PHASE_WAITING_FOR_INPUT' || (phase === 'PHASE_PENDING' && reason === 'CHILDREN'))
    pend(draft);
}

/** Discards what is queued, cuts the run if it is under way, and takes the place of a batch that waits to be retried. */
function preempt(draft: Draft, by: string): void {
  for (const followUp of draft.queue()) {
    discardFollowUp(draft, followUp, 'CLEARED', { text: 'preempted', data: { reason: 'PREEMPTED', by } });
  }
  if (!isLive(draft.run)) {
    abandonBatch(draft, by);
    const { phase, reason } = draft.agent;
    if (phase === 'PHASE_PENDING' && reasonRow({ phaseReason: reason }).isRetryable)
      pendNow(draft, 'STARTING');
    return;
  }
  draft.remember({ preemptedBy: by });
  if (draft.run.state !== 'RUNNING') return;
  draft.setRun({ state: 'STOPPING', stop: 'INTERRUPT' });
  draft.move('PHASE_RUNNING', 'STOPPING');
}

/** What is wrong with a message, whatever the state of its agent is. */
export function refuseMessage(command: QueueFollowUp): Refusal | null {
  const { description, tasks, change, attachmentIds, deliverAt, preempt, steer } = command;
  const tooLong = refuseDescription(description, 'description');
  if (tooLong) return tooLong;
  if (description === '' && tasks.length === 0 && !attachmentIds?.length && !overrides(change))
    return invalid(
      'description',
      'expected a description, a task, an image or a setting; the message has none of them',
    );
  if (deliverAt && preempt) return invalid('deliverAt', 'may not be combined with preempt');
  if (!steer) return null;
  const other = preempt ? 'preempt' : deliverAt ? 'deliverAt' : overrides(change) ? 'a setting' : null;
  return other && invalid('steer', `may not be combined with ${other}`);
}

function refuse(command: QueueFollowUp, state: AgentState, now: string): Refusal | null {
  const { agent } = state;
  const { change } = command;
  const path = agent.path.join('/');
  if (isTerminal(agent.phase))
    return agentEnded(`the agent ${path} is not running: it has ended (${agent.phase})`, agent.phase);
  const badSettings = refuseSettings(change, agent.settings, agent.backend, command.ownModels);
  if (badSettings) return badSettings;
  if (command.deliverAt) {
    if (command.deliverAt <= now)
      return invalid('deliverAt', `must be in the future; got ${command.deliverAt}`);
    if (Date.parse(command.deliverAt) > Date.parse(now) + deferMs) {
      return invalid('deliverAt', `must be at most ${limits.deferDays} days ahead; got ${command.deliverAt}`);
    }
    if (agent.deferral === false) {
      return precondition(
        'DEFERRAL_UNSUPPORTED',
        path,
        `the runner of ${path} runs a build without deferral`,
      );
    }
  }
  const surviving = [...state.followUps.values()].filter(
    (f) => f.state === 'DEFERRED' || (f.state === 'QUEUED' && !command.preempt),
  );
  const undelivered = surviving.flatMap((f) => f.tasks);
  const badTasks = refuseTasks(command.tasks, state.checklist, undelivered);
  if (badTasks) return badTasks;
  const brought = change.persona?.tasks ?? [];
  const own = state.checklist.filter((t) => t.persona === '');
  const tooMany =
    brought.length > 0 ? refuseSize([...own, ...undelivered, ...command.tasks, ...brought]) : null;
  if (tooMany) return tooMany;
  const settingsBytes = [...surviving.map((f) => f.change), change]
    .filter((one) => one?.persona || one?.outputSchema)
    .reduce((sum, one) => sum + JSON.stringify(one).length, 0);
  if (settingsBytes > limits.undeliveredSettingsBytes) {
    return exhausted(
      `the personas and schemas of undelivered follow-ups hold at most ${limits.undeliveredSettingsBytes} bytes`,
    );
  }
  const count = (command.preempt ? 0 : agent.queued) + agent.deferred;
  return count >= limits.undeliveredFollowUpsPerAgent
    ? exhausted(`an agent has at most ${limits.undeliveredFollowUpsPerAgent} undelivered follow-ups`)
    : null;
}

export interface DeliverDue {
  readonly type: 'due';
}

/** Deferred messages whose time has come join the queue, and wake the agent like fresh ones. */
export const deliverDue: Decide<DeliverDue, number> = (loaded, _command, state) => {
  const draft = Draft.of(state, loaded.now);
  const due = draft
    .deferred()
    .filter((f) => f.deliverAt !== null && f.deliverAt <= loaded.now)
    .sort((a, b) => ((a.deliverAt ?? '') < (b.deliverAt ?? '') ? -1 : 1));
  if (due.length === 0) return unchanged(0);
  for (const followUp of due) draft.moveFollowUp(followUp, 'QUEUED');
  const next = draft.deferred().map((f) => f.deliverAt ?? '');
  draft.set({ nextDeliverAt: next.sort()[0] ?? null });
  wake(draft);
  return decided(loaded, due.length, [draft]);
};
