import { type Kind, kindTable, limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { exhausted, type Refusal } from '../../domain/refusal.ts';
import { isObject } from '../../lib/json.ts';
import { repositoryDigest } from '../../lib/repositories.ts';
import type { Connection } from '../../store/connection.ts';
import {
  describeResource,
  findUndescribed,
  findWorkspaces,
  type KindUse,
  readKindUse,
} from '../../store/statements/resource-index.ts';
import { nameOf, type Principal } from '../access/principal.ts';
import type { Document } from './document.ts';

interface StoredDocument {
  readonly tenant: number;
  readonly kind: Kind;
  readonly name: string;
  readonly generation: number;
  /** Null once it is deleted. */
  readonly document: Document | null;
  /** Of its text and of a sealed value. */
  readonly bytesBeside: number;
}

/** Records how large a document is, who created it and which repositories it lists, so that none of this is read from it. */
export async function describe(connection: Connection, stored: StoredDocument): Promise<void> {
  const { tenant, kind, name, generation, document, bytesBeside } = stored;
  const key = [tenant, kind, name, generation] as const;
  if (!document) return void (await describeResource(connection, ...key, null, null, []));
  const createdBy = String(document.createdBy ?? '');
  await describeResource(connection, ...key, bytesOf(document) + bytesBeside, createdBy, reposIn(document));
}

export const bytesOf = (document: Document): number => Buffer.byteLength(JSON.stringify(document));

/** Digests of the repositories that a workspace lists. */
function reposIn({ repos }: Document): string[] {
  if (!Array.isArray(repos)) return [];
  const urls = repos.map((repo: unknown) => (isObject(repo) ? repo.url : repo));
  const digests = urls.map((url) => (typeof url === 'string' ? repositoryDigest(url) : null));
  return [...new Set(digests.filter((digest) => digest !== null))];
}

/** Of this many documents at a time, each of which may have 512 KiB. */
const documentsPerLook = 16;

/** Describes documents that a build wrote which did not: of one tenant and kind, or all. */
export async function describeRest(database: pg.Pool, tenant?: number, kind?: Kind): Promise<void> {
  for (;;) {
    const rows = await findUndescribed(database, tenant ?? null, kind ?? null, documentsPerLook);
    for (const row of rows)
      await describe(database, { ...row, kind: row.kind as Kind, bytesBeside: row.sealed_bytes });
    if (rows.length < documentsPerLook) return;
  }
}

/** The workspaces that may list one of these repositories, by name. */
export async function* workspacesListing(
  database: pg.Pool,
  tenant: number,
  urls: readonly string[],
): AsyncGenerator<{ name: string; document: Document }> {
  await describeRest(database, tenant, 'workspace');
  const repos = urls.map(repositoryDigest).filter((digest) => digest !== null);
  for (let after = ''; ; ) {
    const found = await findWorkspaces(database, tenant, repos, after, documentsPerLook);
    for (const { name, document } of found) if (document) yield { name, document };
    const last = found.at(-1);
    if (!last) return;
    after = last.name;
  }
}

export interface Growth {
  readonly documents: number;
  readonly bytes: number;
}

/** Refuses a write with which a tenant has too much of a kind. What one member creates is at most half of it. */
export async function refuseKindFull(
  connection: Connection,
  caller: Principal,
  { tenant, kind }: { readonly tenant: number; readonly kind: Kind },
  more: Growth,
): Promise<Refusal | null> {
  if (more.documents <= 0 && more.bytes <= 0) return null;
  const createdBy = nameOf(caller);
  const [use] = await readKindUse(connection, tenant, kind, createdBy);
  if (!use) return null;
  const most = {
    documents: kindTable[kind].mostDocuments ?? limits.documentsPerKind,
    bytes: kindTable[kind].mostBytes ?? limits.documentBytesPerKind,
  };
  const own = { documents: use.own_documents, bytes: use.own_bytes };
  const half = { documents: most.documents / 2, bytes: most.bytes / 2 };
  return (
    refuseMore('the tenant has', kind, use, more, most) ??
    (caller.role === 'member' ? refuseMore(`${createdBy} has created`, kind, own, more, half) : null)
  );
}

function refuseMore(
  who: string,
  kind: Kind,
  use: Pick<KindUse, 'documents' | 'bytes'>,
  more: Growth,
  most: Growth,
): Refusal | null {
  const full = (['documents', 'bytes'] as const).find(
    (unit) => more[unit] > 0 && use[unit] + more[unit] > most[unit],
  );
  if (!full) return null;
  const text = full === 'documents' ? `${use.documents} documents` : `documents of ${use.bytes} bytes`;
  return exhausted(
    `${who} ${text} of the kind ${kind}, and the most is ${most[full]}; delete some: muster delete ${kind} NAME`,
    'CATALOG_FULL',
  );
}
