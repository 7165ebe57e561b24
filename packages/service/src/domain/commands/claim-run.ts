import { isRehearsalModel } from '@muster/sdk/contract';
import {
  type Agent,
  type AgentState,
  type Batch,
  freshMemory,
  type Instant,
  noUsage,
  type Run,
} from '../agent.ts';
import { nextBatch, openCycles } from '../batch.ts';
import { type Budget, budgetLines, isSpent, noticeOf, stopBy } from '../budget.ts';
import { type Decide, decided } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { refusePolicy } from '../policy.ts';
import { aborted, type Refusal } from '../refusal.ts';
import { block, pend } from '../settle.ts';

export interface ClaimRun {
  readonly type: 'claim';
  readonly runner: ClaimingRunner;
}

export interface ClaimingRunner {
  readonly id: string;
  readonly name: string;
  readonly pool: string;
  readonly deferral: boolean;
  readonly rehearses: boolean;
  readonly sandboxed: boolean;
}

/** Gives the agent's next run to a runner. Null: a policy or a budget does not allow it, and the agent is stopped. */
export const claimRun: Decide<ClaimRun, AgentState | null> = (loaded, { runner }, state) => {
  const { agent } = state;
  const unclaimable = refuseClaim(loaded, runner, agent);
  if (unclaimable) return unclaimable;
  const budgets = loaded.budgets(agent.id);
  const spent = budgets.find(isSpent);
  if (spent) return decided(loaded, null, [outOfBudget(state, spent, loaded.now)]);
  const draft = Draft.of(state, loaded.now);
  const number = agent.runCount + 1;
  const { lines, told } = budgetLines(budgets, agent.id, number === 1, agent.memory.toldBudgets ?? []);
  const batch = nextBatch(draft, number, loaded.children(agent.id), lines);
  const refused = refusePolicy(draft.agent.settings, loaded.policies(agent.id));
  if (refused) return decided(loaded, null, [blockedBy(refused, state, loaded.now)]);
  openCycles(draft);
  const rehearsed = runner.rehearses || isRehearsalModel(draft.agent.settings.model);
  const account = rehearsed ? '' : (state.run?.account ?? '');
  draft.run = newRun(number, batch, { ...runner, account }, loaded.now);
  draft.set({
    runCount: number,
    claimableAt: null,
    home: runner.name,
    deferral: runner.deferral,
    rehearsed,
    sandboxed: runner.sandboxed,
    result: { ...agent.result, error: null },
  });
  const { lostInARow, passingFaults, failingSince, finished, wasFinished, homeSince = 0 } = agent.memory;
  const { retriedRun } = agent.memory;
  const hasMessages = batch.spawn || batch.followUpIds.length > 0;
  draft.remember({
    ...freshMemory,
    lostInARow,
    passingFaults,
    failingSince,
    wasFinished: (!hasMessages && (finished || wasFinished)) || undefined,
    batch,
    budget: undefined,
    ...(told.length > 0 && { toldBudgets: told }),
    ...(retriedRun === number && { retriedRun }),
    spawnDue: false,
    claimedAt: loaded.now,
    homeSince: agent.home === runner.name ? homeSince : number,
    models: modelsOfSession(agent, draft.agent.settings.model),
  });
  draft.log('RUN_STARTED', {
    text: batch.tries > 1 ? `try ${batch.tries} of batch ${batch.id}` : '',
    data: {
      runner: runner.name,
      batch: String(batch.id),
      attempt: batch.tries,
      followUpIds: batch.followUpIds,
    },
  });
  draft.move('PHASE_RUNNING', 'STARTING');
  return decided(loaded, draft.state, [draft]);
};

function refuseClaim(loaded: LoadedAgents, runner: ClaimingRunner, agent: Agent): Refusal | null {
  if (agent.claimableAt === null || agent.claimableAt > loaded.now) {
    return aborted('NOT_CLAIMABLE', `the agent ${agent.path.join('/')} has no run to claim`);
  }
  if (agent.pool !== runner.pool) {
    return aborted('OTHER_POOL', `the agent ${agent.path.join('/')} runs in pool "${agent.pool}"`);
  }
  if (loaded.freeRuns(agent) <= 0) {
    return aborted('POOL_FULL', `pool "${agent.pool}" has as many runs as its maxRunsTotal allows`);
  }
  return null;
}

function outOfBudget(state: AgentState, spent: Budget, now: Instant): Draft {
  const draft = Draft.of(state, now);
  const stop = stopBy(spent, 0);
  draft.remember({ budget: stop });
  draft.events.push(noticeOf('budget.spent', spent, stop.message));
  pend(draft);
  return draft;
}

function blockedBy({ message }: Refusal, state: AgentState, now: Instant): Draft {
  const draft = Draft.of(state, now);
  block(draft, { code: 'POLICY', message });
  return draft;
}

const newRun = (
  number: number,
  batch: Batch,
  runner: ClaimingRunner & Pick<Run, 'account'>,
  now: Instant,
): Run => ({
  number,
  batch: batch.id,
  state: 'STARTING',
  outcome: '',
  stop: '',
  runnerId: runner.id,
  runner: runner.name,
  account: runner.account,
  startedAt: now,
  endedAt: null,
  goneAt: null,
  reports: 0,
  currentAction: '',
  followUpIds: batch.followUpIds,
  usage: noUsage,
  credits: null,
});

const maxModels = 20;

/** When the model changes, a harness may summarize the session with the model before, so older models stay allowed. */
function modelsOfSession({ session, memory, settings }: Agent, model: string): string[] {
  const before = session === '' ? [] : (memory.models ?? [settings.model]);
  return [...before.filter((name) => name !== model), model].slice(-maxModels);
}
