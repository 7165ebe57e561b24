import type { MusterClient } from '@muster/sdk';
import { infiniteQueryOptions } from '@tanstack/react-query';

const pageSize = 50;
export const membersKey = ['members'];

export const membersQuery = (client: MusterClient, text: string) =>
  infiniteQueryOptions({
    queryKey: [...membersKey, text],
    initialPageParam: '',
    queryFn: ({ pageParam, signal }) =>
      client.listMembers({ text, pageSize, pageToken: pageParam }, { signal }),
    getNextPageParam: ({ nextPageToken }) => nextPageToken || undefined,
    // The table stays while the next search loads.
    placeholderData: (before) => before,
  });
