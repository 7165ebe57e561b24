import { rehearsalModels } from '@muster/sdk/contract';
import { useContext, useMemo } from 'react';
import { FleetContext } from './use-fleet.ts';
import { useResources } from './use-resources.ts';

/**
 * Names of models that somebody may want to type: those of the catalog, those in use, and the rehearsal's. Which are in
 * use is looked up once: a form does not change under the hand with each entry of the fleet.
 */
export function useModels(): readonly string[] {
  const fleet = useContext(FleetContext);
  const personas = useResources('persona');
  const workspaces = useResources('workspace');
  return useMemo(() => {
    const named = [...personas, ...workspaces].map(({ document }) => document.model ?? '');
    const used = Array.from(fleet?.view().agents.values() ?? [], ({ model }) => model);
    const known = new Set([...named, ...used, ...Object.values(rehearsalModels)]);
    known.delete('');
    return [...known].sort();
  }, [fleet, personas, workspaces]);
}
