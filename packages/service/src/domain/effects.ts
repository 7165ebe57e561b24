import type { Phase } from '@muster/sdk/contract';
import type { Change } from './loaded-agents.ts';

/** What is to be done once a change is durable, and never before. */
export type Effect =
  | {
      readonly type: 'changed';
      readonly tenant: number;
      readonly id: string;
      readonly phase: Phase;
      readonly sequence: number;
    }
  | { readonly type: 'work'; readonly tenant: number; readonly pool: string }
  | { readonly type: 'stop'; readonly runnerId: string };

export function effectsOf(changes: readonly Change[]): Effect[] {
  return changes.flatMap(({ before, after }): Effect[] => {
    const { agent, run } = after;
    const effects: Effect[] = [
      { type: 'changed', tenant: agent.tenant, id: agent.id, phase: agent.phase, sequence: agent.sequence },
    ];
    if (agent.claimableAt !== null && agent.claimableAt !== before?.agent.claimableAt) {
      effects.push({ type: 'work', tenant: agent.tenant, pool: agent.pool });
    }
    const killed = run?.state === 'ENDED' && run.goneAt === null;
    if (run && run !== before?.run && (run.state === 'STOPPING' || killed)) {
      effects.push({ type: 'stop', runnerId: run.runnerId });
    }
    return effects;
  });
}
