import { createHash } from 'node:crypto';
import type { Claim, Task } from '@muster/sdk/contract';

/** The texts a runner puts before an agent. */

/** What the runner has to say, the news of the children, then the messages. A batch that was tried before says so. */
export function batchText(claim: Claim, notes: readonly string[] = []): string {
  const { preface, messages } = claim;
  const texts = messages.map((message) => message.text);
  return joined(tryText(claim), notesText(notes), quoted(preface), ...texts);
}

const notesText = (notes: readonly string[]): string =>
  notes.length > 0 ? `[Muster: ${notes.join(' ')}]` : '';

/** For a session that holds the batch already, and was cut by the provider. */
export const continueText = (notes: readonly string[]): string =>
  joined(
    notesText(notes),
    '[Muster: the provider was unavailable and answers again. Continue where you were cut off.]',
  );

const joined = (...texts: readonly string[]): string => texts.filter((text) => text !== '').join('\n\n');

/** Tells a batch in a session from every other. */
export const batchDigest = ({ preface, messages }: Claim, session: string): string =>
  createHash('sha256')
    .update(JSON.stringify([session, preface, messages]))
    .digest('hex');

/** The session may have seen these messages: whoever reads them again must know why. */
const tryText = ({ attempt }: Claim): string =>
  attempt > 1
    ? `[Muster: this is try ${attempt} of the same messages. An earlier run was cut short, and may have done part of the work: look before you do it again.]`
    : '';

/** The preface tells what children said: a line of theirs must not become a directive to a rehearsing parent. */
const quoted = (preface: string): string => preface.replace(/^!/gm, ' !');

export function reminderText(tasks: readonly Pick<Task, 'id' | 'subject'>[]): string {
  return [
    'Your turn is not over: these active tasks of your checklist are unfinished.',
    ...tasks.map((task) => `- ${task.id}: ${task.subject}`),
    'Finish each and mark it completed, delete what is not needed, or ask if you cannot go on.',
  ].join('\n');
}

export const pushText = (commits: number): string =>
  `Your turn is not over: ${commits === 1 ? '1 commit of your branches is' : `${commits} commits of your branches are`} not pushed. Push with \`git push\`. If a commit is not to be pushed, say so.`;

export function correctionText(errors: readonly string[]): string {
  return [
    'Your structured output does not fit the schema:',
    ...errors.map((error) => `- ${error}`),
    'Give it again, corrected.',
  ].join('\n');
}
