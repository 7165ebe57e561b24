import type { AuditRecord, MusterClient } from '@muster/sdk';
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import { type ActivityView, sinceOf } from '../model/activity.ts';

const pageSize = 50;
/** The service looks at some thousand records for a page. The most pages that are read before the user is asked to go on. */
const mostPages = 25;

/** A page with at least one record, unless there is none in very many. */
export const activityQuery = (client: MusterClient, { text, actor, kind, name, period }: ActivityView) =>
  infiniteQueryOptions({
    queryKey: ['activity', { text, actor, kind, name, period }],
    initialPageParam: '',
    placeholderData: keepPreviousData,
    queryFn: async ({ pageParam, signal }) => {
      const since = pageParam === '' ? sinceOf(period, Date.now()) : undefined;
      const [from, token] = pageParam === '' ? [since?.toISOString(), ''] : placeIn(pageParam);
      let page = { entries: [] as readonly AuditRecord[], nextPageToken: token };
      for (let read = 0; read < mostPages; read += 1) {
        const request = { text, actor, kind, name, from, pageSize, pageToken: page.nextPageToken };
        page = await client.audit(request, { signal });
        if (page.entries.length > 0 || page.nextPageToken === '') break;
      }
      return {
        entries: page.entries,
        next: page.nextPageToken && JSON.stringify([from, page.nextPageToken]),
      };
    },
    getNextPageParam: ({ next }) => next || undefined,
  });

/** A page token is for the request that it came from, so the beginning of the period stays. */
const placeIn = (pageParam: string): [from: string | undefined, token: string] => {
  const [from, token] = JSON.parse(pageParam) as [string | null, string];
  return [from ?? undefined, token];
};

/** The documents of a catalog write; null if its record is gone. */
export const writeQuery = (client: MusterClient, { at, kind, name, generation }: AuditRecord) =>
  queryOptions({
    queryKey: ['activity-write', kind, name, generation],
    queryFn: async ({ signal }) => {
      const to = new Date(Date.parse(at) + 1);
      const { entries } = await client.audit({ kind, name, from: at, to, documents: true }, { signal });
      return entries.find((entry) => entry.generation === generation) ?? null;
    },
  });
