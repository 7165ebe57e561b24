import {
  type AgentStatus,
  budgetText,
  clock,
  contextText,
  dollars,
  firstLine,
  noRunnerText,
  type PlanStep,
  pathOf,
  reasonRow,
  savedText,
  statusAge,
  statusText,
  thousands,
  unpushedText,
} from '@muster/sdk/contract';
import type { Command } from 'commander';
import { changeRequestLine } from './change-requests.ts';
import { addCommand, type Invocation } from './command.ts';
import type { Output } from './output.ts';
import { taskLine } from './tasks.ts';
import { statusStyle } from './wait.ts';

export function addStatusCommand(program: Command): void {
  const nameText =
    'such as fix-login, fix-login/tests, workspace:fix-login or provider/account:workspace:fix-login';
  addCommand(program, 'status', "show an agent's status", status).argument('<agent>', nameText);
}

async function status({ client, output, signal }: Invocation, agent: string): Promise<void> {
  const reply = await client().status(agent, { signal });
  output.answer(reply, () => {
    for (const line of statusLines(reply, output)) output.line(line);
  });
}

function statusLines(status: AgentStatus, output: Output): string[] {
  const field = (name: string, value: string): string[] =>
    value === '' ? [] : [`${output.paint('dim', name.padEnd(12))}${value}`];
  const list = <T>(name: string, items: readonly T[], text: (item: T) => string): string[] =>
    items.flatMap((item, at) => field(at === 0 ? name : '', text(item)));
  const { run, diffStat, cost, treeCost } = status;
  const tokens = `${thousands(status.inputTokens)} in, ${thousands(status.outputTokens)} out`;
  const settings = [status.model, status.reasoningEffort, status.serviceTier, status.fastMode ? 'fast' : ''];
  const files = diffStat?.files === 1 ? '1 file' : `${diffStat?.files} files`;
  const changes = diffStat ? `  ${files}, +${diffStat.insertions} −${diffStat.deletions}` : '';
  return [
    output.paint('bold', pathOf(status.agentId)) +
      (status.rehearsed ? output.paint('dim', '  (rehearsal: no model is used)') : ''),
    ...field('sandbox', status.sandboxed || status.rehearsed ? '' : output.paint('red', 'No sandbox')),
    ...field(
      'status',
      `${output.paint(statusStyle(status), statusText(status))} ${statusAge(status)}`.trimEnd(),
    ),
    ...field(reasonRow(status).needsInput === 'fix' ? 'to fix' : 'needs input', status.needsInput),
    ...field('to fix', status.phaseReason === 'NO_RUNNER' ? noRunnerText(status) : ''),
    ...field('error', status.error ? `${status.error.code}: ${status.error.message}` : ''),
    ...field('doing', run?.currentAction ?? ''),
    ...field(
      'run',
      run ? `${run.runId} ${(run.outcome || run.state).toLowerCase()}, started ${clock(run.startedAt)}` : '',
    ),
    ...field('model', settings.filter(Boolean).join(', ')),
    ...field('persona', status.persona),
    ...field('workspace', status.agentId.workspace),
    ...field('branch', status.branch + changes),
    ...field('unpushed', unpushedWork(status)),
    ...list('cr', status.changeRequests, changeRequestLine),
    ...field(
      'cost',
      `${dollars(cost)}${treeCost === cost ? '' : ` (${dollars(treeCost)} with children)`}, ${tokens}`,
    ),
    ...list('budget', status.budgets, (budget) => `${budget.name}: ${budgetText(budget)}`),
    ...field('context', status.context ? contextText(status.context) : ''),
    ...field('children', status.children.map((child) => child.agent.at(-1)).join(', ')),
    ...list('tasks', status.tasks, taskLine),
    ...list('plan', status.plan?.steps ?? [], planLine),
    ...list('queue', status.followUps, ({ followUpId, deliverAt, description }) =>
      [followUpId, deliverAt && `at ${clock(deliverAt)}`, firstLine(description)].filter(Boolean).join('  '),
    ),
    ...field('output', status.structuredOutput === null ? '' : JSON.stringify(status.structuredOutput)),
    ...field('dashboard', status.dashboardUrl),
    ...(status.response === '' ? [] : ['', status.response.trimEnd()]),
  ];
}

const planMarks = { PENDING: ' ', IN_PROGRESS: '~', COMPLETED: 'x' } as const;
const planLine = ({ text, status }: PlanStep): string => `[${planMarks[status]}] ${text}`;

/** What is not pushed, and whether a checkpoint has it. */
function unpushedWork(status: Pick<AgentStatus, 'unpushed' | 'checkpointAt'>): string {
  const saved = savedText(status);
  return saved && `${unpushedText(status.unpushed) || 'nothing'}; ${saved}`;
}
