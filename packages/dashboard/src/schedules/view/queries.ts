import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { useClient } from '../../session/session.ts';
import { inOrder, shownSchedule } from '../model/schedule.ts';

/** Nothing tells the page that a schedule has fired. */
const pollMs = 5_000;
const historyPage = 25;

export function useSchedules() {
  const client = useClient();
  return queryOptions({
    queryKey: ['schedules'],
    refetchInterval: pollMs,
    queryFn: async ({ signal }) => {
      const found: ReturnType<typeof shownSchedule>[] = [];
      for await (const { name, document } of client.catalog.listAll('schedule', { signal }))
        found.push(shownSchedule(name, document));
      return inOrder(found);
    },
  });
}

export function useSchedule(name: string) {
  const client = useClient();
  return queryOptions({
    queryKey: ['schedules', name],
    refetchInterval: pollMs,
    queryFn: async ({ signal }) =>
      shownSchedule(name, (await client.catalog.read('schedule', name, { signal })).document),
  });
}

export function useHistory(name: string) {
  const client = useClient();
  return infiniteQueryOptions({
    queryKey: ['schedules', name, 'history'],
    refetchInterval: pollMs,
    initialPageParam: '',
    queryFn: ({ pageParam: pageToken, signal }) =>
      client.schedules.history(name, { pageToken, pageSize: historyPage }, { signal }),
    getNextPageParam: ({ nextPageToken }) => nextPageToken || undefined,
  });
}
