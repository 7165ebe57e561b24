import { type AgentStatus, type FollowUpInput, InvalidArgumentError } from '@muster/sdk';
import { clock } from '@muster/sdk/contract';
import type { DraftImage } from '../../parts/model/images.ts';
import { sentence } from '../../parts/model/text.ts';
import { SentIds } from './sent-ids.ts';

export interface Draft {
  readonly text: string;
  /** When the question was asked that the text answers; empty for another message. */
  readonly answers: string;
  readonly persona: string;
  readonly model: string;
  readonly reasoningEffort: string;
  readonly serviceTier: string;
  readonly fastMode: '' | 'on' | 'off';
  readonly outputSchema: string;
  /** One per line. */
  readonly tasks: string;
  readonly isPreempting: boolean;
  /** It waits for the end of a turn that is running. */
  readonly isAfterTurn: boolean;
  readonly images: readonly DraftImage[];
  /** Local time, in the format of `<input type="datetime-local">`. */
  readonly deliverAt: string;
}

export const emptyDraft: Draft = {
  text: '',
  answers: '',
  persona: '',
  model: '',
  reasoningEffort: '',
  serviceTier: '',
  fastMode: '',
  outputSchema: '',
  tasks: '',
  isPreempting: false,
  isAfterTurn: false,
  images: [],
  deliverAt: '',
};

type Asking = Pick<AgentStatus, 'phaseReason' | 'phaseSince'>;

/** What is begun while the agent asks is an answer to that question, also after somebody else has answered it. */
export function withText({ text: before, answers }: Draft, text: string, status: Asking): Partial<Draft> {
  const asked = status.phaseReason === 'QUESTION' ? status.phaseSince : '';
  return { text, answers: before.trim() === '' ? asked : answers };
}

/** The text answers a question that is not open. */
export const isTooLate = ({ text, answers }: Draft, { phaseReason, phaseSince }: Asking): boolean =>
  text.trim() !== '' && answers !== '' && (phaseReason !== 'QUESTION' || phaseSince !== answers);

/** Whether the message can be added to a running turn: settings change between turns only. */
export const maySteer = (draft: Draft): boolean =>
  !(draft.isPreempting || draft.deliverAt || draft.persona || draft.model.trim() || draft.reasoningEffort) &&
  !(draft.serviceTier || draft.fastMode || draft.outputSchema.trim());

/** The request for a draft, without the fields that were left empty. */
export function messageOf(draft: Draft): FollowUpInput {
  const subjects = draft.tasks.split('\n').map((line) => line.trim());
  const tasks = subjects.filter(Boolean).map((subject) => ({ subject }));
  return {
    description: draft.text.trim(),
    ...(draft.persona && { persona: draft.persona }),
    ...(draft.model.trim() && { model: draft.model.trim() }),
    ...(draft.reasoningEffort && { reasoningEffort: draft.reasoningEffort }),
    ...(draft.serviceTier && { serviceTier: draft.serviceTier }),
    ...(draft.fastMode && { fastMode: draft.fastMode === 'on' }),
    ...(draft.outputSchema.trim() && { outputSchema: draft.outputSchema.trim() }),
    ...(tasks.length > 0 && { tasks }),
    ...(draft.isPreempting && { preempt: true }),
    // Without a running turn it has no effect, so the request does not depend on when it is sent.
    ...(maySteer(draft) && !draft.isAfterTurn && { steer: true }),
    ...(draft.deliverAt && { deliverAt: new Date(draft.deliverAt).toISOString() }),
  };
}

/** A message needs a text, a task or a setting; delivery options alone are not enough. */
export function isSendable(draft: Draft): boolean {
  const { description, preempt: _, steer: __, deliverAt: ___, ...rest } = messageOf(draft);
  return description !== '' || draft.images.length > 0 || Object.keys(rest).length > 0;
}

export const hasTasks = ({ tasks }: Draft): boolean => tasks.trim() !== '';

/** Whether nothing is written or set. */
export const isEmpty = ({ images, answers: _, ...draft }: Draft): boolean =>
  images.length === 0 &&
  Object.entries(draft).every(([name, value]) => value === emptyDraft[name as keyof Draft]);

/** A turn that can take a message. */
export const isRunning = ({ phase, run }: AgentStatus): boolean =>
  phase === 'PHASE_RUNNING' && run?.state !== 'STOPPING';
const isSteering = (status: AgentStatus, draft: Draft): boolean =>
  isRunning(status) && maySteer(draft) && !draft.isAfterTurn;
const timeOf = ({ deliverAt }: Pick<Draft, 'deliverAt'>): string => clock(new Date(deliverAt).toISOString());

export const scheduleText = (draft: Draft): string => `At ${timeOf(draft)}`;

/** When a message that is sent now reaches the agent. */
export function deliveryText(status: AgentStatus, draft: Draft): string {
  if (draft.deliverAt) return `Delivered at ${timeOf(draft)}.`;
  if (draft.isPreempting) return 'Runs next.';
  if (isSteering(status, draft)) return 'Will be added to this turn.';
  if (status.phase === 'PHASE_RUNNING') return 'Queued until this turn ends.';
  return status.phase === 'PHASE_PENDING' && status.phaseReason !== 'CHILDREN'
    ? 'Will be added to the queue.'
    : 'Starts a turn immediately.';
}

export function sentText(status: AgentStatus, draft: Draft): string {
  if (draft.deliverAt) return `Scheduled for ${timeOf(draft)}.`;
  if (isSteering(status, draft) || draft.isPreempting) return 'Sent.';
  return status.phase === 'PHASE_RUNNING' ? 'Queued.' : 'Sent.';
}

const two = (value: number): string => String(value).padStart(2, '0');

/** Formats a time for `<input type="datetime-local">`, rounded up so that it is never earlier. */
export function localMinute(time: Date): string {
  const at = new Date(Math.ceil(time.getTime() / 60_000) * 60_000);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

const inMinutes = (minutes: number) => (now: Date) => new Date(now.getTime() + minutes * 60_000);

function tomorrowMorning(now: Date): Date {
  const at = new Date(now);
  at.setDate(at.getDate() + 1);
  at.setHours(9, 0, 0, 0);
  return at;
}

export const quickTimes: readonly (readonly [label: string, timeFrom: (now: Date) => Date])[] = [
  ['In 10 minutes', inMinutes(10)],
  ['In 1 hour', inMinutes(60)],
  ['Tomorrow 9:00', tomorrowMorning],
];

export interface MessageProblems {
  readonly fields: ReadonlyMap<string, string>;
  /** The whole error, if a part of it belongs to no field of the form. */
  readonly rest: unknown;
}

const formField = (field: string): string | undefined =>
  /^(description|agent|model|reasoningEffort|serviceTier|fastMode|outputSchema|preempt|steer|deliverAt|tasks|attachmentIds)\b/.exec(
    field,
  )?.[1];

export function messageProblems(error: unknown): MessageProblems {
  const fields = new Map<string, string>();
  if (!(error instanceof InvalidArgumentError)) return { fields, rest: error };
  const unknownFields = error.fieldViolations.filter(({ field, description }) => {
    const name = formField(field);
    if (name) fields.set(name, problemText(field, description));
    return name === undefined;
  });
  const isComplete = fields.size > 0 && unknownFields.length === 0;
  return { fields, rest: isComplete ? null : error };
}

/** The form has one line per task, so an error of a task names its line. */
function problemText(field: string, description: string): string {
  const line = /^tasks\[(\d+)\]/.exec(field)?.[1];
  return line === undefined ? sentence(description) : sentence(`line ${Number(line) + 1}: ${description}`);
}

/** Unsent messages by person and agent, until the window is closed. */
class MessageDrafts {
  readonly #drafts = new Map<string, Draft>();
  readonly #sent = new SentIds();

  get(key: string): Draft {
    return this.#drafts.get(key) ?? emptyDraft;
  }

  set(key: string, draft: Draft): void {
    for (const image of this.get(key).images)
      if (!draft.images.includes(image)) URL.revokeObjectURL(image.url);
    if (draft === emptyDraft) this.#drafts.delete(key);
    else this.#drafts.set(key, draft);
  }

  toRequest(key: string, attachmentIds: readonly string[] = []): FollowUpInput {
    const images = attachmentIds.length > 0 && { attachmentIds: [...attachmentIds] };
    const message = { ...messageOf(this.get(key)), ...images };
    return { ...message, followUpId: this.#sent.idFor(key, message) };
  }

  /** Text written since then stays. */
  accepted(key: string, sent: Draft): void {
    if (this.get(key) === sent) this.set(key, emptyDraft);
    this.#sent.accepted(key);
  }
}

export const messageDrafts = new MessageDrafts();
