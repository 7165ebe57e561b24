import type { ReportRequest, ReportResult, UsagePart } from '@muster/sdk/contract';
import { noUsage, type Run, type Usage } from '../agent.ts';
import { type Decide, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import { aborted, notFound } from '../refusal.ts';

export interface ReportLate extends Pick<ReportRequest, 'runId' | 'report' | 'items'> {
  readonly type: 'late';
  /** The name and pool of the runner, which outlive its process. */
  readonly runner: string;
  readonly pool: string;
  readonly usage: Usage;
  readonly parts: readonly UsagePart[];
  readonly missing: number;
}

/**
 * What a runner knows about a run that has ended without its last report: what the run used in total, and what it said.
 * The agent may have had further runs since. Usage is compared with what was counted, and items have the number of their
 * report, so that nothing counts twice.
 */
export const reportLate: Decide<ReportLate, ReportResult> = (loaded, command, state) => {
  const { runId, report, items = [], missing } = command;
  const run = state.run?.number === runId ? state.run : loaded.olderRun(state.agent.id, runId);
  if (!run || run.runner !== command.runner || state.agent.pool !== command.pool)
    return notFound(`runner "${command.runner}" had no run ${runId} of ${state.agent.path.join('/')}`);
  if (run.state !== 'ENDED') return aborted('RUN_NOT_ENDED', `run ${runId} has not ended`);

  const usage = atLeast(run.usage, command.usage);
  const isNew = report > run.reports && (items.length > 0 || missing > 0);
  if (!isNew && !isMore(usage, run.usage)) return unchanged(nothing);
  const draft = Draft.of(state, loaded.now);
  const reported: Run = { ...run, usage, reports: isNew ? report : run.reports };
  if (run === state.run) draft.setRun(reported);
  else draft.olderRun = reported;
  draft.set({ usage: withMore(draft.agent.usage, usage, run.usage) });
  if (isMore(usage, run.usage)) {
    const more = withMore(noUsage, usage, run.usage);
    // It was spent before the run ended, however long ago that is.
    const at = run.endedAt ?? loaded.now;
    draft.events.push({ type: 'spent', runId, at, usage: more, parts: command.parts, isLate: true });
    for (const { key, isCounted, startsAt } of loaded.budgets(state.agent.id))
      if (isCounted && startsAt <= at)
        draft.events.push({ type: 'taken', key, usd: more.cost, within: null });
  }
  if (isNew) {
    for (const { type, text = '', data = {} } of items)
      draft.log(type, { runId, text, data: { ...data, late: true } });
    if (missing > 0) draft.log('WARNING', { runId, text: missingText(missing, runId), data: { missing } });
  }
  return decided(loaded, nothing, [draft]);
};

const missingText = (missing: number, runId: number): string =>
  `Up to ${missing} ${missing === 1 ? 'entry' : 'entries'} of run ${runId} are missing here: the runner was lost before it reported them.`;

const nothing: ReportResult = { stop: '', tasks: [], activeTaskIds: [], asked: false };

const fields = ['cost', 'inputTokens', 'cachedInputTokens', 'outputTokens'] as const;

const byField = (amountOf: (field: keyof Usage) => number): Usage => ({
  cost: amountOf('cost'),
  inputTokens: amountOf('inputTokens'),
  cachedInputTokens: amountOf('cachedInputTokens'),
  outputTokens: amountOf('outputTokens'),
});

const atLeast = (a: Usage, b: Usage): Usage => byField((field) => Math.max(a[field], b[field]));
const isMore = (a: Usage, b: Usage): boolean => fields.some((field) => a[field] > b[field]);
const withMore = (sum: Usage, now: Usage, before: Usage): Usage =>
  byField((field) => sum[field] + now[field] - before[field]);
