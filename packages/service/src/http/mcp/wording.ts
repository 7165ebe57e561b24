import {
  type AgentEntry,
  type AgentStatus,
  needsAttention,
  type Task,
  unpushedText,
} from '@muster/sdk/contract';

/** Records in words for a model: short, and every name as the tools take it. */

const responseLength = 10_000;
const detailLength = 2_000;

const marks: Record<Task['status'], string> = {
  TASK_STATUS_UNSPECIFIED: ' ',
  TASK_STATUS_PENDING: ' ',
  TASK_STATUS_IN_PROGRESS: '~',
  TASK_STATUS_COMPLETED: 'x',
  TASK_STATUS_DELETED: '-',
};

export const cut = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length)}… (cut: ${text.length} characters in all)`;

const lines = (...all: (string | false)[]): string => all.filter(Boolean).join('\n');

export const isOpen = ({ status }: Task): boolean =>
  status === 'TASK_STATUS_PENDING' || status === 'TASK_STATUS_IN_PROGRESS';

export function checklistText(tasks: readonly Task[]): string {
  const listed = tasks.filter(({ status }) => status !== 'TASK_STATUS_DELETED');
  if (listed.length === 0) return 'The checklist is empty.';
  return ['id and subject; [ ] pending, [~] in progress, [x] completed', ...listed.map(taskText)].join('\n');
}

export function taskText(task: Task): string {
  const pattern = task.activation?.filesModified?.pattern;
  const notes = [
    task.blockedBy.length > 0 && `blocked by ${task.blockedBy.join(', ')}`,
    pattern !== undefined && `counts once you push a change to ${pattern || 'a file'}`,
  ].filter(Boolean);
  return lines(
    `- [${marks[task.status]}] ${task.id}: ${task.subject}${notes.length > 0 ? ` (${notes.join('; ')})` : ''}`,
    task.description !== '' && `  ${cut(task.description, detailLength)}`,
  );
}

export const phaseText = ({ phase, phaseReason }: Pick<AgentStatus, 'phase' | 'phaseReason'>): string =>
  `${phase.slice('PHASE_'.length)} (${phaseReason})`;

/** One line: where a child stands. */
export const childLine = (name: string, entry: Pick<AgentEntry, 'phase' | 'phaseReason' | 'needsInput'>) =>
  `- ${name}: ${phaseText(entry)}${entry.needsInput ? `, ${entry.phaseReason === 'BLOCKED' ? 'blocked' : 'asks'}: ${cut(entry.needsInput, detailLength)}` : ''}`;

/** Everything a parent wants to know of a child. */
export function childText(name: string, status: AgentStatus): string {
  const { needsInput, response, structuredOutput, error, branch, run, tasks } = status;
  const open = tasks.filter(isOpen);
  return lines(
    `${name}: ${phaseText(status)}`,
    needsInput !== '' && `${status.phaseReason === 'BLOCKED' ? 'It is blocked' : 'It asks'}: ${needsInput}`,
    error !== null && `It failed: ${error.code}: ${error.message}`,
    response !== '' && `It said: ${cut(response, responseLength)}`,
    structuredOutput !== null && `Its structured output: ${JSON.stringify(structuredOutput)}`,
    branch !== '' && `Its branch: ${branch}`,
    workText(status),
    !needsAttention(status.phase) && !!run?.currentAction && `It is at: ${run.currentAction}`,
    open.length > 0 && `Its open tasks:\n${open.map(taskText).join('\n')}`,
  );
}

/** What no remote has, and when it was last saved. */
function workText({ unpushed, checkpointAt }: AgentStatus): string | false {
  const words = unpushedText(unpushed);
  return (
    words !== '' && `Unpushed: ${words}; ${checkpointAt ? `last saved at ${checkpointAt}` : 'not saved'}`
  );
}

/** The same as data. */
export const childData = (name: string, status: AgentStatus): Record<string, unknown> => ({
  child: name,
  phase: status.phase,
  reason: status.phaseReason,
  question: status.needsInput,
  response: cut(status.response, responseLength),
  structuredOutput: status.structuredOutput,
  error: status.error,
  branch: status.branch,
  unpushed: status.unpushed,
  checkpointAt: status.checkpointAt,
  openTasks: status.tasks.filter(isOpen).map(({ id, subject }) => ({ id, subject })),
});

export const ownText = (status: AgentStatus): string =>
  lines(
    `You are ${status.agentId.agent.join('/')}, in run ${status.runCount}: ${phaseText(status)}.`,
    `Persona ${status.persona}, model ${status.model}, workspace ${status.agentId.workspace}.`,
    status.branch !== '' && `Your branch: ${status.branch}`,
    `Open tasks: ${status.tasks.filter(isOpen).length} of ${status.tasks.length}. Messages waiting: ${status.followUps.length}. Children: ${status.children.length}.`,
    `Cost so far: ${status.cost.toFixed(4)} US dollars, with those below you ${status.treeCost.toFixed(4)}.`,
  );

export function queueText(followUps: AgentStatus['followUps']): string {
  if (followUps.length === 0) return 'No message waits for you.';
  const listed = followUps.map((followUp) => `- ${followUpText(followUp)}`);
  return ['These messages wait for the end of your turn:', ...listed].join('\n');
}

export function followUpText({
  description,
  deliverAt,
  truncated,
}: AgentStatus['followUps'][number]): string {
  const when = deliverAt === null ? '' : `(comes at ${deliverAt}) `;
  // Of a text that the status has cut already, the length is not known.
  const shown = truncated ? `${description.slice(0, detailLength)}… (cut)` : cut(description, detailLength);
  return `${when}${shown || '(no words: tasks or settings)'}`;
}
