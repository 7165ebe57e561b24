import { isTerminal, limits, type Task } from '@muster/sdk/contract';
import { type AgentState, isLive, type SettingsChange } from '../agent.ts';
import { abandonBatch } from '../batch.ts';
import { refuseSize, refuseTasks } from '../checklist.ts';
import { type Decision, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { alreadyExists, exhausted, invalid, notFound, precondition, type Refusal } from '../refusal.ts';
import { overrides, refuseSettings } from '../settings.ts';
import { pend } from '../settle.ts';
import type { World } from '../world.ts';

export interface QueueFollowUp {
  readonly type: 'queue';
  readonly followUpId: string;
  readonly description: string;
  readonly tasks: readonly Task[];
  readonly change: SettingsChange;
  readonly preempt: boolean;
  readonly deliverAt: string | null;
  readonly digest: string;
  /** The id was made for this message, so nobody can have used it before. */
  readonly minted?: true;
  /** What was found wrong with the request before the agent was looked at. */
  readonly invalid: Refusal | null;
}

const deferMs = limits.deferDays * 24 * 3600 * 1000;

/** Admits a follow-up. A known id is answered before every other check and repeats nothing. */
export function queueFollowUp(
  world: World,
  command: QueueFollowUp,
  state: AgentState,
): Decision<{ followUpId: string }> {
  const { followUpId } = command;
  const known = state.followUps.get(followUpId);
  if (known) {
    return known.digest === command.digest
      ? unchanged({ followUpId })
      : alreadyExists(`followUpId: "${followUpId}" names another message of this agent`);
  }
  const refused = command.invalid ?? refuse(command, state, world.now);
  if (refused) return refused;

  const draft = Draft.of(state, world.now);
  if (command.preempt) preempt(draft, followUpId);
  draft.admit(
    {
      id: followUpId,
      state: 'QUEUED',
      position: 0,
      change: overrides(command.change) ? command.change : null,
      tasks: command.tasks,
      deliverAt: command.deliverAt,
      queuedAt: world.now,
      batch: null,
      digest: command.digest,
    },
    command.description,
    command.deliverAt ? 'DEFERRED' : 'QUEUED',
  );
  if (command.deliverAt) {
    const { nextDeliverAt, phase, reason } = draft.agent;
    const isSooner = nextDeliverAt === null || command.deliverAt < nextDeliverAt;
    if (isSooner) draft.set({ nextDeliverAt: command.deliverAt });
    if (reason === 'RESTING') draft.move(phase, 'DEFERRED');
  } else {
    wake(draft);
  }
  return decided(world, { followUpId }, [draft]);
}

/** A message starts a run at once where the agent rests or waits for its children. */
export function wake(draft: Draft): void {
  const { phase, reason } = draft.agent;
  if (phase === 'PHASE_WAITING_FOR_INPUT' || (phase === 'PHASE_PENDING' && reason === 'CHILDREN'))
    pend(draft);
}

/** Discards what is queued, cuts the run if it is under way, and takes the place of a batch that waits to be retried. */
function preempt(draft: Draft, by: string): void {
  for (const followUp of draft.queue()) {
    draft.moveFollowUp(followUp, 'CLEARED', { text: 'preempted', data: { reason: 'PREEMPTED', by } });
  }
  if (!isLive(draft.run)) {
    abandonBatch(draft, by);
    if (draft.agent.reason === 'RETRYING') draft.move('PHASE_PENDING', 'STARTING');
    return;
  }
  draft.remember({ preemptedBy: by });
  if (draft.run.state !== 'RUNNING') return;
  draft.setRun({ state: 'STOPPING', stop: 'INTERRUPT' });
  draft.move('PHASE_RUNNING', 'STOPPING');
}

function refuse(command: QueueFollowUp, state: AgentState, now: string): Refusal | null {
  const { agent } = state;
  const path = agent.path.join('/');
  if (isTerminal(agent.phase))
    return notFound(`the agent ${path} is not running: it has ended (${agent.phase})`);
  const badSettings = refuseSettings(command.change, agent.settings, agent.backend);
  if (badSettings) return badSettings;
  if (command.deliverAt) {
    if (command.deliverAt <= now) return invalid('deliverAt', 'must be in the future');
    if (Date.parse(command.deliverAt) > Date.parse(now) + deferMs) {
      return invalid('deliverAt', `must be at most ${limits.deferDays} days ahead`);
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
  const brought = command.change.persona?.tasks ?? [];
  const own = state.checklist.filter((t) => t.persona === '');
  const tooMany =
    brought.length > 0 ? refuseSize([...own, ...undelivered, ...command.tasks, ...brought]) : null;
  if (tooMany) return tooMany;
  const count = (command.preempt ? 0 : agent.queued) + agent.deferred;
  return count >= limits.undeliveredFollowUpsPerAgent
    ? exhausted(`an agent has at most ${limits.undeliveredFollowUpsPerAgent} undelivered follow-ups`)
    : null;
}
