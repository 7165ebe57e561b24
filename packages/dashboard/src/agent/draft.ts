import { type FollowUpInput, mintId } from '@muster/sdk';
import { plural } from '../parts/model/text.ts';

/** A message that is being written, as its form has it. */
export interface Draft {
  readonly text: string;
  readonly persona: string;
  readonly model: string;
  readonly reasoningEffort: string;
  readonly serviceTier: string;
  readonly fastMode: '' | 'on' | 'off';
  readonly outputSchema: string;
  /** One per line. */
  readonly tasks: string;
  readonly isPreempting: boolean;
  /** As `<input type="datetime-local">` has it: in the time of the one who looks. */
  readonly deliverAt: string;
}

export const emptyDraft: Draft = {
  text: '',
  persona: '',
  model: '',
  reasoningEffort: '',
  serviceTier: '',
  fastMode: '',
  outputSchema: '',
  tasks: '',
  isPreempting: false,
  deliverAt: '',
};

const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');

/** What a draft says to the service; what was left alone is left out. */
export function messageOf(draft: Draft): FollowUpInput {
  const tasks = linesOf(draft.tasks).map((subject) => ({ subject }));
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
    ...(draft.deliverAt && { deliverAt: new Date(draft.deliverAt).toISOString() }),
  };
}

/** A text, a task or a setting makes a message; when and how it comes does not. */
export function isSendable(draft: Draft): boolean {
  const { description, preempt: _, deliverAt: __, ...rest } = messageOf(draft);
  return description !== '' || Object.keys(rest).length > 0;
}

/** What the folded options hold, in words. */
export function optionWords(draft: Draft): string[] {
  const { tasks = [] } = messageOf(draft);
  return [
    draft.persona && `persona ${draft.persona}`,
    draft.model.trim(),
    draft.reasoningEffort && `effort ${draft.reasoningEffort}`,
    draft.serviceTier && `tier ${draft.serviceTier}`,
    draft.fastMode && `fast mode ${draft.fastMode}`,
    draft.outputSchema.trim() && 'output schema',
    tasks.length > 0 && plural(tasks.length, 'task'),
    draft.isPreempting && 'interrupts',
    draft.deliverAt && `at ${draft.deliverAt.replace('T', ' ')}`,
  ].filter((words): words is string => Boolean(words));
}

/**
 * What was begun on the pages of agents, each person's apart, until the window is closed. A message keeps its id for as
 * long as it says the same: sent twice, by a double click or after an answer that was lost, it is one message.
 */
class Drafts {
  readonly #drafts = new Map<string, Draft>();
  readonly #sent = new Map<string, { readonly message: string; readonly followUpId: string }>();

  of(place: string): Draft {
    return this.#drafts.get(place) ?? emptyDraft;
  }

  keep(place: string, draft: Draft): void {
    if (draft === emptyDraft) this.#drafts.delete(place);
    else this.#drafts.set(place, draft);
  }

  /** The message of the draft, with the id that it is sent under. */
  toSend(place: string): FollowUpInput {
    const message = messageOf(this.of(place));
    const text = JSON.stringify(message);
    const before = this.#sent.get(place);
    const followUpId = before?.message === text ? before.followUpId : mintId();
    this.#sent.set(place, { message: text, followUpId });
    return { ...message, followUpId };
  }

  /** It was taken: the next message is another one, even if it says the same. What was written since stays. */
  taken(place: string, sent: Draft): void {
    if (this.of(place) === sent) this.#drafts.delete(place);
    this.#sent.delete(place);
  }
}

export const drafts = new Drafts();
