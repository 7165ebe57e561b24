import type { CatalogEntry, DocumentOf, Kind, MusterClient } from '@muster/sdk';
import { type OwnModels, rehearsalModels } from '@muster/sdk/contract';
import { MutationCache, QueryCache, QueryClient, queryOptions, useQuery } from '@tanstack/react-query';
import { useContext, useMemo } from 'react';
import { reportError, useClient } from '../session/session.ts';
import { FleetContext } from './fleet.ts';

/** Without retries: the SDK client retries each operation by its own rules. */
export const queryClientFor = (): QueryClient =>
  new QueryClient({
    queryCache: new QueryCache({ onError: reportError }),
    mutationCache: new MutationCache({ onError: reportError }),
    defaultOptions: {
      queries: { retry: false, staleTime: 1_000, refetchOnWindowFocus: true },
      mutations: { retry: false },
    },
  });

const none: readonly never[] = [];
/** Fresh enough for the options of a form. */
const freshMs = 30_000;

/** All resources of a kind, by name. */
export const resourcesQuery = <K extends Kind>(client: MusterClient, kind: K) =>
  queryOptions({
    queryKey: ['resources', kind],
    staleTime: freshMs,
    queryFn: async ({ signal }) => {
      const entries: CatalogEntry<DocumentOf<K>>[] = [];
      for await (const entry of client.catalog.listAll(kind, { signal })) entries.push(entry);
      return entries;
    },
  });

/** The resources of a kind as options of a form; none while they load. */
export function useResources<K extends Kind>(kind: K): readonly CatalogEntry<DocumentOf<K>>[] {
  return useQuery(resourcesQuery(useClient(), kind)).data ?? none;
}

const noModels: OwnModels = {};

/** The model names that the operator of the service added; none while they load. An older service sends none. */
export function useOwnModels(): OwnModels {
  const client = useClient();
  const { data } = useQuery({
    queryKey: ['own-models'],
    staleTime: freshMs,
    queryFn: async ({ signal }): Promise<OwnModels> => {
      const { models = [] } = await client.service({ signal });
      return Object.fromEntries(models.map(({ model, backend }) => [model, backend]));
    },
  });
  return data ?? noModels;
}

/**
 * Suggested model names: those of the operator, of the catalog and of running agents, and the rehearsal's. The fleet is
 * read once, so that an open form does not change with every entry.
 */
export function useModels(): readonly string[] {
  const fleet = useContext(FleetContext);
  const personas = useResources('persona');
  const workspaces = useResources('workspace');
  const own = useOwnModels();
  return useMemo(() => {
    const named = [...personas, ...workspaces].map(({ document }) => document.model ?? '');
    const used = Array.from(fleet?.view().agents.values() ?? [], ({ model }) => model);
    const known = new Set([...Object.keys(own), ...named, ...used, ...rehearsalModels]);
    known.delete('');
    return [...known].sort();
  }, [fleet, personas, workspaces, own]);
}
