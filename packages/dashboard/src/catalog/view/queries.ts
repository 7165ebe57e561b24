import { type CatalogResource, type DocumentOf, type MusterClient, NotFoundError } from '@muster/sdk';
import { type Kind, shownOnceFieldOf } from '@muster/sdk/contract';
import { infiniteQueryOptions, type QueryClient, queryOptions } from '@tanstack/react-query';

export type Document = DocumentOf<string>;
export type StoredResource = CatalogResource<Document>;

/** Null if the resource does not exist. */
export const resourceQuery = (client: MusterClient, kind: Kind, name: string) =>
  queryOptions({
    queryKey: ['resource', kind, name],
    queryFn: ({ signal }) => readResource(client, kind, name, signal),
  });

export async function readResource(
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

const historyPageSize = 50;

/** Every write of a resource, newest first; empty if it was never written. */
export const historyQuery = (client: MusterClient, kind: Kind, name: string) =>
  infiniteQueryOptions({
    queryKey: ['resource-history', kind, name],
    initialPageParam: '',
    queryFn: async ({ pageParam, signal }) => {
      try {
        return await client.catalog.history(kind, name, {
          pageToken: pageParam,
          pageSize: historyPageSize,
          signal,
        });
      } catch (error) {
        if (error instanceof NotFoundError) return { entries: [], nextPageToken: '' };
        throw error;
      }
    },
    getNextPageParam: ({ nextPageToken }) => nextPageToken || undefined,
  });

/** Reloads the resource after a write or a delete. */
export async function invalidateResource(queries: QueryClient, kind: Kind, name: string): Promise<void> {
  await Promise.all([
    queries.invalidateQueries({ queryKey: ['resources', kind] }),
    queries.invalidateQueries({ queryKey: ['resource', kind, name] }),
    queries.invalidateQueries({ queryKey: ['resource-history', kind, name] }),
  ]);
}

export interface CreatedSecret {
  readonly kind: Kind;
  readonly name: string;
  readonly secret: string;
}

/** Separates the secret, which only the reply of a write contains, from the document. */
export function takeSecret(kind: Kind, document: Document): { document: Document; secret: string | null } {
  const field = shownOnceFieldOf(kind);
  if (field === undefined) return { document, secret: null };
  const { [field]: secret, ...rest } = document;
  return { document: rest, secret: typeof secret === 'string' ? secret : null };
}
