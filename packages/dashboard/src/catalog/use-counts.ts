import { type Kind, kinds } from '@muster/sdk/contract';
import { useQueries } from '@tanstack/react-query';
import { useMemo } from 'react';
import { resourcesQuery } from '../live/resources.ts';
import { useClient } from '../session/session.ts';

/** How many resources there are of each kind, as far as that is known. */
export function useCounts(): ReadonlyMap<Kind, number> {
  const client = useClient();
  const lists = useQueries({ queries: kinds.map((kind) => resourcesQuery(client, kind)) });
  const lengths = lists.map(({ data }) => data?.length).join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the lengths are all that is told.
  return useMemo(
    () =>
      new Map(kinds.flatMap((kind, at) => (lists[at]?.data ? [[kind, lists[at].data.length] as const] : []))),
    [lengths],
  );
}
