import { createHash } from 'node:crypto';
import { type Claim, isThreadTask, type Steer, type Task, taskMarks } from '@muster/sdk/contract';

/** What the runner tells an agent: its instructions, its messages, and reminders. */

type Repos = readonly { readonly path: string }[];

/** The system prompt: who the agent is, the rules, its persona and its checklist. */
export function instructionsFor(claim: Claim, repos: Repos): string {
  const { agent, workspace } = claim.agentId;
  return join(
    `You are the agent "${agent.join('/')}" of workspace "${workspace}", run by Muster. You work in turns: you receive a message, work until it is done, and end your turn. Nobody watches you work; the sender of the message reads your last reply.`,
    section('Your repositories', repos.length > 0 ? repositoryRules(claim, repos) : ''),
    section('Rules', rules),
    section('Expected output', claim.expectedOutput),
    section(`Persona: ${claim.persona.name}`, claim.persona.instructions),
    section(
      'Your checklist at the start of this turn',
      claim.tasks.filter(isListed).map(taskLine).join('\n'),
    ),
  );
}

const repositoryRules = ({ branch, workspace }: Claim, repos: Repos): string =>
  [
    repos.length === 1
      ? `Your working folder is your own clone, on your own branch ${branch}.`
      : `In your working folder, each of ${repos.map((repo) => repo.path).join(', ')} is your own clone, on your own branch ${branch}.`,
    'Commit your work and push it with `git push` before your turn ends: unpushed work may be lost when you move to another machine. You can push only to your own branch.',
    ...(workspace.document.allowCiChanges === true
      ? []
      : ['Pushes that change CI definitions (workflow files such as .github/workflows) are refused.']),
  ].join('\n');

const rules = `The tools of the server "muster" connect you to the control plane:
- Keep your checklist up to date: set a task to in progress when you start it, mark it completed when it is done, delete it when it is not needed. Your turn is not over while active tasks are unfinished.
- Review comments on your changes come with a task each. Complete the task with a note that says what you did, or delete it with a note that says why you decided against it. The people who commented read the note.
- If you need an answer to continue, use \`ask\` with one clear question and end your turn.
- When all work is done and you expect no further message, use \`finish\` and end your turn.
- If the work is impossible and nobody could help, use \`fail\` with the reason and end your turn.
- You can spawn children for independent parts, send them messages, wait for them and kill them. You are notified when they end.
- Processes that you leave running are killed when your turn ends.`;

const section = (title: string, text: string): string =>
  text.trim() === '' ? '' : `# ${title}\n${text.trim()}`;

const join = (...texts: readonly string[]): string => texts.filter((text) => text !== '').join('\n\n');

const isListed = (task: Task): boolean => task.status !== 'TASK_STATUS_DELETED';

function taskLine(task: Task): string {
  const files = task.activation?.filesModified;
  const notes = [
    ...(task.blockedBy.length > 0 ? [`after ${task.blockedBy.join(', ')}`] : []),
    ...(files ? [`only after you push changes to ${files.pattern || 'any file'}`] : []),
  ];
  const suffix = notes.length > 0 ? ` (${notes.join('; ')})` : '';
  // What people said in a review is quoted in the message and is not an instruction.
  const isTold = task.description === '' || isThreadTask(task);
  const description = isTold ? '' : `\n  ${task.description.replaceAll('\n', '\n  ')}`;
  return `- [${taskMarks[task.status]}] ${task.id}: ${task.subject}${suffix}${description}`;
}

/** The messages of a run, after the runner's own notes and the news of the agent's children. */
export function batchText(claim: Claim, notes: readonly string[]): string {
  const texts = claim.messages.map(({ text, attachmentIds = [] }) =>
    claim.messages.length > 1 && attachmentIds.length > 0
      ? join(text, imagesText(attachmentIds.length))
      : text,
  );
  // The preface quotes children: a line of theirs must not become a directive to a rehearsed parent.
  const preface = claim.preface.replace(/^!/gm, ' !');
  return join(retryText(claim), notesText(notes), preface, ...texts);
}

/** A message that comes during a turn. Its tasks join the checklist when it has been taken. */
export const steerText = ({ text, tasks }: Pick<Steer, 'text' | 'tasks'>): string =>
  join(text, tasks.length > 0 ? `New tasks on your checklist:\n${tasks.map(taskLine).join('\n')}` : '');

/** The images of a batch come together, in the order of the messages. */
const imagesText = (count: number): string =>
  `[${count === 1 ? 'An image belongs' : `${count} images belong`} to this message.]`;

/** For a session that already has the messages, after the provider interrupted it. */
export const continueText = (notes: readonly string[]): string =>
  join(
    notesText(notes),
    '[Muster: the provider was unavailable and is back. Continue where you were interrupted.]',
  );

const notesText = (notes: readonly string[]): string =>
  notes.length > 0 ? `[Muster: ${notes.join(' ')}]` : '';

/** The session may contain these messages already, so the agent must know why they come again. */
const retryText = ({ attempt }: Claim): string =>
  attempt > 1
    ? `[Muster: this is attempt ${attempt} at the same messages. An earlier run was interrupted and may have done part of the work: check before you do it again.]`
    : '';

/** Identifies the messages of a run in a session. */
export const batchDigest = ({ preface, messages }: Claim, session: string): string =>
  createHash('sha256')
    .update(JSON.stringify([session, preface, messages]))
    .digest('hex');

export function reminderText(tasks: readonly Pick<Task, 'id' | 'subject'>[]): string {
  return [
    'Your turn is not over: these active tasks of your checklist are unfinished.',
    ...tasks.map((task) => `- ${task.id}: ${task.subject}`),
    'Finish each task and mark it completed, delete it if it is not needed, or ask if you cannot continue.',
  ].join('\n');
}

export const pushText = (commits: number): string =>
  `Your turn is not over: ${commits === 1 ? '1 commit of your branches is' : `${commits} commits of your branches are`} not pushed. Push with \`git push\`. If a commit should not be pushed, say so.`;

export function correctionText(errors: readonly string[]): string {
  return [
    'Your structured output does not match the schema:',
    ...errors.map((error) => `- ${error}`),
    'Send the corrected output.',
  ].join('\n');
}
