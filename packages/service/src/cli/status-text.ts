import {
  type AgentStatus,
  ageOf,
  clock,
  dollars,
  firstLine,
  pathOf,
  statusAge,
  statusText,
  type Task,
  thousands,
  unpushedText,
} from '@muster/sdk/contract';
import type { Output } from './output.ts';
import { styleOf } from './phase-style.ts';

/** One line: who, how it stands, and what it says. */
export function statusLine(status: AgentStatus, output: Pick<Output, 'paint'>): string {
  const said =
    status.phaseReason === 'BLOCKED'
      ? status.needsInput
      : status.error?.message || status.needsInput || firstLine(status.response);
  const standing = output.paint(styleOf(status), statusText(status));
  return `${pathOf(status.agentId)} ${standing}${said ? `: ${said}` : ''}`;
}

const marks: Readonly<Record<Task['status'], string>> = {
  TASK_STATUS_UNSPECIFIED: ' ',
  TASK_STATUS_PENDING: ' ',
  TASK_STATUS_IN_PROGRESS: '~',
  TASK_STATUS_COMPLETED: 'x',
  TASK_STATUS_DELETED: '-',
};

export function taskLine(task: Task): string {
  const after = task.blockedBy.length > 0 ? ` (after ${task.blockedBy.join(', ')})` : '';
  const pattern = task.activation?.filesModified?.pattern;
  const when = pattern === undefined ? '' : ` (once ${pattern || 'any file'} is pushed)`;
  return `[${marks[task.status]}] ${task.id}  ${task.subject}${after}${when}`;
}

/** Everything worth knowing about an agent, one fact a line. */
export function statusLines(status: AgentStatus, output: Pick<Output, 'paint'>): string[] {
  const fact = (name: string, value: string): string[] =>
    value === '' ? [] : [`${output.paint('dim', name.padEnd(10))}${value}`];
  const { run, diffStat } = status;
  const tokens = `${thousands(status.inputTokens)} in, ${thousands(status.outputTokens)} out`;
  return [
    output.paint('bold', pathOf(status.agentId)) +
      (status.rehearsed ? output.paint('dim', '  (rehearsed: no model is behind it)') : ''),
    ...fact('sandbox', status.sandboxed || status.rehearsed ? '' : output.paint('red', 'No sandbox')),
    ...fact('status', `${output.paint(styleOf(status), statusText(status))} ${statusAge(status)}`.trimEnd()),
    ...fact(status.phaseReason === 'BLOCKED' ? 'to fix' : 'asks', status.needsInput),
    ...fact('error', status.error ? `${status.error.code}: ${status.error.message}` : ''),
    ...fact('doing', run?.currentAction ?? ''),
    ...fact(
      'run',
      run ? `${run.runId} ${(run.outcome || run.state).toLowerCase()}, begun ${clock(run.startedAt)}` : '',
    ),
    ...fact(
      'model',
      [status.model, status.reasoningEffort, status.serviceTier, status.fastMode ? 'fast' : '']
        .filter(Boolean)
        .join(', '),
    ),
    ...fact('persona', status.persona),
    ...fact('workspace', status.agentId.workspace),
    ...fact(
      'branch',
      status.branch +
        (diffStat ? `  ${diffStat.files} files, +${diffStat.insertions} −${diffStat.deletions}` : ''),
    ),
    ...fact('unpushed', workText(status)),
    ...fact(
      'cost',
      `${dollars(status.cost)}${status.treeCost === status.cost ? '' : ` (${dollars(status.treeCost)} with its children)`}, ${tokens}`,
    ),
    ...fact('children', status.children.map((child) => child.agent.at(-1)).join(', ')),
    ...status.tasks.flatMap((task, at) => fact(at === 0 ? 'tasks' : '', taskLine(task))),
    ...status.followUps.flatMap((message, at) =>
      fact(
        at === 0 ? 'queue' : '',
        `${message.followUpId}  ${message.deliverAt ? `at ${clock(message.deliverAt)}  ` : ''}${firstLine(message.description)}`,
      ),
    ),
    ...fact('output', status.structuredOutput === null ? '' : JSON.stringify(status.structuredOutput)),
    ...fact('page', status.dashboardUrl),
    ...(status.response === '' ? [] : ['', status.response.trimEnd()]),
  ];
}

/** What no remote has, and whether it was saved; empty when there is neither. */
function workText({ unpushed, checkpointAt }: AgentStatus): string {
  const words = unpushedText(unpushed);
  if (checkpointAt === null) return words && `${words}; not saved`;
  return `${words || 'nothing'}; saved ${ageOf(checkpointAt)} ago`;
}
