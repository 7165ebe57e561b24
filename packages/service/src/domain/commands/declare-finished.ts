import { type AgentState, isLive } from '../agent.ts';
import { type Decision, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { fenced } from '../refusal.ts';

export interface DeclareFinished {
  readonly type: 'finish';
  readonly runId: number;
  readonly text: string;
}

/**
 * The agent says that its work is done; what that leads to is decided when its run has ended. Its closing words are
 * the response, unless it says something more.
 */
export function declareFinished(
  loaded: LoadedAgents,
  { runId, text }: DeclareFinished,
  state: AgentState,
): Decision<Record<string, never>> {
  const { run, agent } = state;
  if (!isLive(run) || run.number !== runId) {
    return fenced(`run ${runId} is not the current run of ${agent.path.join('/')}`);
  }
  if (agent.memory.finished && (text === '' || agent.result.response === text)) return unchanged({});
  const draft = Draft.of(state, loaded.now);
  draft.remember({ finished: true });
  if (text !== '') draft.produce({ response: text });
  return decided(loaded, {}, [draft]);
}
