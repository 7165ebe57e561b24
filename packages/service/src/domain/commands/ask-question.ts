import { type AgentState, isLive } from '../agent.ts';
import { type Decision, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { fenced } from '../refusal.ts';

export interface AskQuestion {
  readonly type: 'ask';
  readonly runId: number;
  readonly question: string;
}

/**
 * The agent asks, while its run goes on. Nobody is shown the question before the run has ended by itself: until then
 * the agent may ask another, and an end that tries the batch again takes the question with it.
 */
export function askQuestion(
  loaded: LoadedAgents,
  { runId, question }: AskQuestion,
  state: AgentState,
): Decision<Record<string, never>> {
  const { run, agent } = state;
  if (!isLive(run) || run.number !== runId) {
    return fenced(`run ${runId} is not the current run of ${agent.path.join('/')}`);
  }
  if (agent.memory.question === question) return unchanged({});
  const draft = Draft.of(state, loaded.now);
  draft.remember({ question });
  return decided(loaded, {}, [draft]);
}
