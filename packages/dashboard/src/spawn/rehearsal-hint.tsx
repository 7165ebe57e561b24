import type { AgentEntry } from '@muster/sdk';
import { isRehearsalModel } from '@muster/sdk/contract';
import { useContext, useState } from 'react';
import { FleetContext } from '../live/fleet.ts';
import { Button } from '../parts/button.tsx';
import type { FormPart } from './use-spawn-form.ts';

const example = `Look around, then ask how to go on.
!say I am looking around.
!run ls -la
!task add Wait for an answer
!usage 1200 300 150 0.02
!ask Shall I go on?`;

/**
 * Whether models are played here, as the newest agents that named one tell; undefined while there are none. The service
 * does not say it in general: it depends on the runner that will take the agent.
 */
export function areModelsPlayed(
  agents: Iterable<Pick<AgentEntry, 'model' | 'rehearsed' | 'createdAt'>>,
): boolean | undefined {
  let newest: Pick<AgentEntry, 'rehearsed' | 'createdAt'> | undefined;
  for (const agent of agents)
    if (!isRehearsalModel(agent.model) && !(newest && newest.createdAt > agent.createdAt)) newest = agent;
  return newest?.rehearsed;
}

/** Teaches what a rehearsal does, to whoever has no model behind the agent. */
export function RehearsalHint({ draft, set }: FormPart) {
  const fleet = useContext(FleetContext);
  const [arePlayed] = useState(() => areModelsPlayed(fleet?.view().agents.values() ?? []));
  const isPlayed = isRehearsalModel(draft.model.trim()) || arePlayed;
  if (isPlayed === false) return null;
  const tryIt = () => set({ description: [draft.description.trimEnd(), example].filter(Boolean).join('\n') });
  return (
    <div className="spawn-rehearsal">
      <p>
        {isPlayed
          ? 'No model is behind it: the rehearsal agent plays it.'
          : 'Without a provider key no model is behind it: the rehearsal agent plays it.'}{' '}
        It follows lines such as <code>!say</code> <code>!run</code> <code>!task add</code> <code>!ask</code>{' '}
        <code>!spawn</code> <code>!finish</code>.
      </p>
      <Button look="quiet" onClick={tryIt} disabled={draft.description.includes(example)}>
        Try it
      </Button>
    </div>
  );
}
