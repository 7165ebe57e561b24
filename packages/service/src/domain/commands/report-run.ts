import type { ReportRequest, ReportResult, Task } from '@muster/sdk/contract';
import { type AgentState, isLive, type Result, type Run, type Usage } from '../agent.ts';
import { settleSteer } from '../batch.ts';
import { activatedBy, unfinished } from '../checklist.ts';
import { type Decide, type Decision, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { finishRun } from '../finish-run.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { fenced } from '../refusal.ts';
import { pend } from '../settle.ts';

export interface ReportRun extends Omit<ReportRequest, 'agentKey' | 'omitTasks' | 'reached'> {
  readonly type: 'report';
}

/** A part of a report, if it has that. */
type Reported<F extends keyof ReportRun> = NonNullable<ReportRun[F]>;

/**
 * What a runner reports about its run. It counts only from the runner that holds the run and only while the run is the
 * current one; a repeated report is acknowledged and changes nothing.
 */
export const reportRun: Decide<ReportRun, ReportResult> = (loaded, command, state) => {
  const { run } = state;
  const { items = [], pushes = [] } = command;
  if (!run || run.number !== command.runId || run.runnerId !== command.runnerId) {
    return fenced(`run ${command.runId} is not the current run of ${state.agent.path.join('/')}`);
  }
  if (run.state === 'ENDED' && command.gone) return confirmGone(loaded, command, run, state);
  if (command.report <= run.reports) return unchanged(replyOf(state));
  if (run.state === 'ENDED') return fenced(`run ${command.runId} has ended (${run.outcome})`);

  const draft = Draft.of(state, loaded.now);
  draft.setRun({ reports: command.report });
  draft.set({ progressAt: loaded.now });
  if (command.traceId) draft.trace(command.traceId);
  if (command.session !== undefined) draft.set({ session: command.session });
  if (command.account !== undefined) draft.setRun({ account: command.account });
  if (command.currentAction !== undefined) draft.setRun({ currentAction: command.currentAction });
  if (command.started && run.state === 'STARTING') {
    draft.setRun({ state: 'RUNNING' });
    draft.move('PHASE_RUNNING', 'WORKING');
  }
  for (const { type, text = '', data = {} } of items) {
    const sequence = draft.log(type, { text, data });
    if (type === 'PLAN') draft.set({ result: { ...draft.agent.result, plan: { sequence, at: draft.now } } });
  }
  const said = responseIn(items);
  if (said) draft.produce({ response: said });
  if (command.usage) addUsage(loaded, draft, command.usage);
  if (command.context) noteContext(draft, command.context);
  for (const { repo = '', ref, tip, commits, files } of pushes) {
    draft.log('PUSH', { text: ref, data: { repo, ref, commits, files } });
    const { result } = draft.agent;
    draft.set({
      result: { ...result, branch: ref, ...(tip && { pushed: withTip(result.pushed, repo, tip) }) },
    });
    if (repo) draft.events.push({ type: 'branchPushed', repo, branch: ref });
  }
  if (pushes.length > 0) activateTasks(draft, pushes);
  if (command.diff) noteDiff(draft, command.diff);
  if (command.unpushed) noteUnpushed(draft, command.unpushed);
  for (const steered of command.steers ?? []) settleSteer(draft, steered);
  if (command.end) endRun(loaded, draft, command.end);
  return decided(loaded, replyOf(draft.state), [draft]);
};

/** A workspace has few repositories: a runner that names many does not make the agent larger. */
const mostRepos = 100;

type Tips = NonNullable<Result['pushed']>;

const withTip = (pushed: Tips = {}, repo: string, tip: string): Tips =>
  Object.hasOwn(pushed, repo) || Object.keys(pushed).length < mostRepos ? { ...pushed, [repo]: tip } : pushed;

const outputFields: readonly string[] = ['type', 'runnerId', 'runId', 'report', 'currentAction', 'items'];

/**
 * Whether a report only says what the run writes and does. Such a report may be stored without a decision
 * (`store/statements/append-output.ts`), with the same result as that of `reportRun`.
 */
export const isOutput = (report: ReportRun): boolean =>
  Object.entries(report).every(([field, value]) => value === undefined || outputFields.includes(field)) &&
  !report.items?.some(({ type }) => type === 'PLAN');

/** What an agent said last is its response. */
export const responseIn = (items: Reported<'items'>): string | undefined =>
  items.findLast((item) => item.type === 'MESSAGE' && item.text)?.text;

/** All pushes of a report together, because the cost of matching their files is bounded per report. */
function activateTasks(draft: Draft, pushes: Reported<'pushes'>): void {
  const { activated } = draft.agent.memory;
  const inactive = draft.checklist.filter((task) => !activated.includes(task.id));
  const files = pushes.flatMap((push) => push.files);
  draft.remember({ activated: [...activated, ...activatedBy(inactive, files)] });
}

function noteDiff(draft: Draft, diff: Reported<'diff'>): void {
  const { repo, text, workingTree = false, files, insertions, deletions } = diff;
  const { result } = draft.agent;
  const kind = workingTree ? 'workingTrees' : 'diffs';
  const stats = { ...result[kind], [repo]: { files, insertions, deletions } };
  draft.set({ result: { ...result, [kind]: stats } });
  draft.diffs.push({ repo, text, workingTree });
}

function noteUnpushed(draft: Draft, { commits, files, isSaved, isPartial }: Reported<'unpushed'>): void {
  const isComplete = !isPartial && (isSaved || commits + files === 0);
  draft.set({
    unpushed: { commits, files, ...(!isComplete && { isSaved: false }) },
    ...(isSaved && { checkpointAt: draft.now }),
  });
}

/** A harness may know the window only after a turn. */
function noteContext(draft: Draft, { usedTokens, windowTokens }: Reported<'context'>): void {
  const { result } = draft.agent;
  const window = windowTokens || (result.context?.windowTokens ?? 0);
  draft.set({ result: { ...result, context: { usedTokens, windowTokens: window } } });
}

function endRun(loaded: LoadedAgents, draft: Draft, ended: Reported<'end'>): void {
  if (ended.response) draft.produce({ response: ended.response });
  if (ended.structuredOutput !== undefined) draft.produce({ structuredOutput: ended.structuredOutput });
  const limitUntil = ended.limitUntil && new Date(ended.limitUntil).toISOString();
  finishRun(draft, { ...ended, limitUntil }, loaded.children(draft.agent.id));
}

/**
 * The process of a killed run has ended: the agent's next run may be claimed. Its runner then saves a last checkpoint, and
 * reports once more what of the work is unpushed.
 */
function confirmGone(
  loaded: LoadedAgents,
  command: ReportRun,
  run: Run,
  state: AgentState,
): Decision<ReportResult> {
  // One that comes after a later one is a repeated report whose reply was lost.
  const isNew = command.report > run.reports;
  const unpushed = isNew && run.outcome === 'KILLED' ? command.unpushed : undefined;
  if (run.goneAt !== null && !unpushed) return unchanged(replyOf(state));
  const draft =
    run.goneAt === null
      ? processGone(state, loaded.now, 'confirmed by its runner')
      : Draft.of(state, loaded.now);
  if (isNew) draft.setRun({ reports: command.report });
  if (unpushed) noteUnpushed(draft, unpushed);
  return decided(loaded, replyOf(state), [draft]);
}

function processGone(state: AgentState, now: string, how: string): Draft {
  const draft = Draft.of(state, now);
  draft.setRun({ goneAt: now });
  draft.log('PROCESS_GONE', { runId: state.run?.number ?? 0, text: how });
  if (draft.agent.phase === 'PHASE_PENDING' && draft.agent.reason === 'STOPPING') pend(draft);
  return draft;
}

const replyOf = ({ run, checklist, agent: { memory } }: AgentState): ReportResult =>
  reportReply(run?.stop ?? '', checklist, memory.activated, memory.question);

export const reportReply = (
  stop: Run['stop'],
  checklist: readonly Task[],
  activated: readonly string[],
  question: string,
): ReportResult => ({
  stop,
  tasks: [...checklist],
  activeTaskIds: unfinished(checklist, activated).map((t) => t.id),
  asked: question !== '',
});

function addUsage(loaded: LoadedAgents, draft: Draft, more: Reported<'usage'>): void {
  const { costUsd: cost = 0, inputTokens = 0, cachedInputTokens = 0, outputTokens = 0, parts = [] } = more;
  const sum = (used: Usage): Usage => ({
    cost: used.cost + cost,
    inputTokens: used.inputTokens + inputTokens,
    cachedInputTokens: used.cachedInputTokens + cachedInputTokens,
    outputTokens: used.outputTokens + outputTokens,
  });
  if (!draft.run) return;
  draft.setRun({ usage: sum(draft.run.usage) });
  draft.set({ usage: sum(draft.agent.usage) });
  const usage = { cost, inputTokens, cachedInputTokens, outputTokens };
  const { number: runId, credits } = draft.run;
  draft.events.push({ type: 'spent', runId, at: draft.now, usage, parts, isLate: false });
  // Of a budget that is newer than its last request for credit nothing is reserved for the run.
  for (const { key, isCounted } of loaded.budgets(draft.agent.id))
    if (isCounted && credits?.[key] === undefined)
      draft.events.push({ type: 'taken', key, usd: cost, within: null });
}

export interface LoseRun {
  readonly type: 'lose';
  readonly runId: number;
}

/** The lease of the run's runner has ended, so no process works on the run any more. */
export const loseRun: Decide<LoseRun, boolean> = (loaded, { runId }, state) => {
  const { run } = state;
  if (!run || run.number !== runId || run.goneAt !== null) return unchanged(false);
  if (!isLive(run))
    return decided(loaded, true, [processGone(state, loaded.now, 'the lease of its runner ended')]);
  const draft = Draft.of(state, loaded.now);
  finishRun(draft, { outcome: 'LOST' }, loaded.children(draft.agent.id));
  return decided(loaded, true, [draft]);
};
