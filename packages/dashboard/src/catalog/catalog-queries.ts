import { type CatalogResource, type DocumentOf, type MusterClient, NotFoundError } from '@muster/sdk';
import { type Kind, secretFields } from '@muster/sdk/contract';
import { infiniteQueryOptions, type QueryClient, queryOptions } from '@tanstack/react-query';

export type Document = DocumentOf<string>;
export type StoredResource = CatalogResource<Document>;

/** A resource, or null where there is none. */
export const resourceQuery = (client: MusterClient, kind: Kind, name: string) =>
  queryOptions({
    queryKey: ['resource', kind, name],
    queryFn: ({ signal }) => readIfThere(client, kind, name, signal),
  });

export async function readIfThere(
  client: MusterClient,
  kind: Kind,
  name: string,
  signal?: AbortSignal,
): Promise<StoredResource | null> {
  try {
    return (await client.catalog.read(kind, name, { signal })) as StoredResource;
  } catch (error) {
    if (error instanceof NotFoundError) return null;
    throw error;
  }
}

const historyPage = 50;

/** Every write of a resource, newest first; of one that was never written there is none. */
export const historyQuery = (client: MusterClient, kind: Kind, name: string) =>
  infiniteQueryOptions({
    queryKey: ['resource-history', kind, name],
    initialPageParam: '',
    queryFn: async ({ pageParam, signal }) => {
      try {
        return await client.catalog.history(kind, name, {
          pageToken: pageParam,
          pageSize: historyPage,
          signal,
        });
      } catch (error) {
        if (error instanceof NotFoundError) return { entries: [], nextPageToken: '' };
        throw error;
      }
    },
    getNextPageParam: ({ nextPageToken }) => nextPageToken || undefined,
  });

/** After a write or a delete: what was read of it is old. */
export async function forgetResource(queries: QueryClient, kind: Kind, name: string): Promise<void> {
  await Promise.all([
    queries.invalidateQueries({ queryKey: ['resources', kind] }),
    queries.invalidateQueries({ queryKey: ['resource', kind, name] }),
    queries.invalidateQueries({ queryKey: ['resource-history', kind, name] }),
  ]);
}

export interface OneTime {
  readonly kind: Kind;
  readonly name: string;
  readonly secret: string;
}

/** The document of a write's reply without the secret that only this reply has. */
export function takeSecret(kind: Kind, document: Document): { document: Document; secret: string | null } {
  const field = secretFields[kind];
  if (field === undefined) return { document, secret: null };
  const { [field]: secret, ...rest } = document;
  return { document: rest, secret: typeof secret === 'string' ? secret : null };
}
