import {
  FailedPreconditionError,
  type FollowUpInput,
  type PendingFollowUp,
  type Task,
  type TaskInput,
} from '@muster/sdk';
import type { FollowUp } from '@muster/sdk/contract';

type Queued = Pick<PendingFollowUp, 'followUpId' | 'state'>;

/** The ids of the queue in the order that the service has. */
export const queuedIds = (followUps: readonly Queued[]): string[] =>
  followUps.filter(({ state }) => state === 'QUEUED').map(({ followUpId }) => followUpId);

/** The order with one message at another place; null if it is there already, or not in the queue. */
export function movedTo(ids: readonly string[], id: string, place: number): string[] | null {
  const at = ids.indexOf(id);
  if (at < 0 || place === at || place < 0 || place >= ids.length) return null;
  return ids.filter((other) => other !== id).toSpliced(place, 0, id);
}

/** A message that changes a setting can't be added to a running turn. */
export const hasSettings = (followUp: PendingFollowUp | FollowUp): boolean =>
  [
    followUp.agent,
    followUp.model,
    followUp.reasoningEffort,
    followUp.serviceTier,
    followUp.outputSchema,
  ].some((value) => value !== '') || followUp.fastMode !== null;

/** The request that replaces a message by itself with a few changes: everything else stays. */
export function replacing(
  followUp: FollowUp,
  change: Pick<FollowUpInput, 'description' | 'steer' | 'deliverAt'>,
): FollowUpInput {
  const { followUpId, description, deliverAt, agent, fastMode, attachmentIds, tasks, steer } = followUp;
  const { model, reasoningEffort, serviceTier, outputSchema } = followUp;
  return {
    followUpId,
    replace: true,
    description,
    ...(deliverAt !== null && { deliverAt }),
    ...(steer && { steer }),
    ...(agent !== '' && { persona: agent }),
    ...(model !== '' && { model }),
    ...(reasoningEffort !== '' && { reasoningEffort }),
    ...(serviceTier !== '' && { serviceTier }),
    ...(outputSchema !== '' && { outputSchema }),
    ...(fastMode !== null && { fastMode }),
    ...(attachmentIds.length > 0 && { attachmentIds }),
    ...(tasks.length > 0 && { tasks: tasks.map(taskInput) }),
    ...change,
  };
}

const taskInput = ({ activation, ...task }: Task): TaskInput => ({
  ...task,
  ...(activation?.filesModified && { activation: { filesModified: activation.filesModified } }),
});

/** Whether a command failed because the queue had changed. */
export const isOutdated = (error: unknown, type: 'QUEUE_CHANGED' | 'FOLLOW_UP_DELIVERED'): boolean =>
  error instanceof FailedPreconditionError && error.violations.some((violation) => violation.type === type);

/** Texts that were edited and not saved, by follow-up: closing the dialog does not lose them. */
export const unsavedTexts = new Map<string, string>();
