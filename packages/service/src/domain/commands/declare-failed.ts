import { type AgentState, isLive } from '../agent.ts';
import { type Decision, decided, unchanged } from '../decision.ts';
import { Draft } from '../draft.ts';
import type { LoadedAgents } from '../loaded-agents.ts';
import { fenced } from '../refusal.ts';

export interface DeclareFailed {
  readonly type: 'fail';
  readonly runId: number;
  readonly message: string;
}

/** The agent says that it can't do its work. It ends as FAILED when its run has come to its own end. */
export function declareFailed(
  loaded: LoadedAgents,
  { runId, message }: DeclareFailed,
  state: AgentState,
): Decision<Record<string, never>> {
  const { run, agent } = state;
  if (!isLive(run) || run.number !== runId) {
    return fenced(`run ${runId} is not the current run of ${agent.path.join('/')}`);
  }
  if (agent.memory.failure === message) return unchanged({});
  const draft = Draft.of(state, loaded.now);
  draft.remember({ failure: message });
  return decided(loaded, {}, [draft]);
}
