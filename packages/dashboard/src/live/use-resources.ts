import type { CatalogEntry, DocumentOf, Kind, MusterClient } from '@muster/sdk';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { useClient } from '../session/use-session.ts';

const none: readonly never[] = [];
/** Choices in a form need not be newer. */
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

/** The resources of a kind, for a form that lets one choose among them; none while they come. */
export function useResources<K extends Kind>(kind: K): readonly CatalogEntry<DocumentOf<K>>[] {
  return useQuery(resourcesQuery(useClient(), kind)).data ?? none;
}
