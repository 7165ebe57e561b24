import { type AgentState, isLive, type Memory } from '../agent.ts';
import { type Decide, type Decision, type Done, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { fenced } from '../refusal.ts';

/**
 * What a live run declares about its agent. A declaration takes effect when the run has ended by itself; until then the
 * run may declare something else, and an end after which the batch is tried again drops it.
 */
export interface AskQuestion {
  readonly type: 'ask';
  readonly runId: number;
  readonly question: string;
}

export interface DeclareFinished {
  readonly type: 'finish';
  readonly runId: number;
  /** The response, unless the agent says something more; empty leaves it as it is. */
  readonly text: string;
}

export interface DeclareFailed {
  readonly type: 'fail';
  readonly runId: number;
  readonly message: string;
}

export const askQuestion: Decide<AskQuestion, Done> = (loaded, { runId, question }, state) =>
  declare(loaded, runId, state, state.agent.memory.question === question, { question });

export const declareFailed: Decide<DeclareFailed, Done> = (loaded, { runId, message }, state) =>
  declare(loaded, runId, state, state.agent.memory.failure === message, { failure: message });

export const declareFinished: Decide<DeclareFinished, Done> = (loaded, { runId, text }, state) => {
  const { memory, result } = state.agent;
  const isKnown = memory.finished && (text === '' || result.response === text);
  return declare(loaded, runId, state, isKnown, { finished: true }, text);
};

function declare(
  loaded: LoadedAgents,
  runId: number,
  state: AgentState,
  isKnown: boolean,
  declared: Partial<Memory>,
  response = '',
): Decision<Done> {
  const { run, agent } = state;
  if (!isLive(run) || run.number !== runId) {
    return fenced(`run ${runId} is not the current run of ${agent.path.join('/')}`);
  }
  if (isKnown) return unchanged({});
  const draft = Draft.of(state, loaded.now);
  draft.remember(declared);
  if (response !== '') draft.produce({ response });
  return decided(loaded, {}, [draft]);
}
