import {
  inputFormatOf,
  type Kind,
  kindOf,
  limits,
  type Resource,
  type Service,
  type WriteRequest,
} from '@muster/sdk/contract';
import type pg from 'pg';
import { isRefusal, notFound, type Refusal, tenantClosed } from '../../domain/refusal.ts';
import type { ServiceSecrets } from '../../lib/service-secret.ts';
import type { KeyParts } from '../../lib/token.ts';
import { begin, rollBack, type Statement } from '../../store/connection.ts';
import { listChangeRequests, readChangeRequest } from '../../store/statements/change-requests.ts';
import { deleteHook } from '../../store/statements/deliveries.ts';
import { deleteKeys } from '../../store/statements/keys.ts';
import {
  clearResource,
  type HistoryRow,
  insertHistory,
  type LockedResource,
  listResources,
  lockResource,
  type ResourceRow,
  readHistory,
  readResource,
  readResources,
  reserveResource,
  writeResource,
} from '../../store/statements/resources.ts';
import { findOutdated, readSealed, type SealedRow } from '../../store/statements/secrets.ts';
import { batchReads } from '../batch-reads.ts';
import type { TenantInput } from '../identify.ts';
import type { Keys } from '../keys.ts';
import type { PageTokens } from '../page-tokens.ts';
import { nameOf, type Principal } from '../principal.ts';
import type { Tenants } from '../tenants.ts';
import { changeRequestOf } from '../views.ts';
import {
  type CheckedChange,
  type CheckedWrite,
  checkChange,
  checkWrite,
  decideWrite,
  type Ref,
  refuseDelete,
  refuseName,
  unstoredFields,
  withServerFields,
} from './decide-write.ts';
import { builtin, builtinNames, type Document, encodePayload } from './document.ts';
import { unsealValue } from './sealed-values.ts';
import { saveSecret, signingKeys, webhookUrlOf } from './secrets.ts';

export interface CatalogOptions {
  readonly database: pg.Pool;
  readonly tenants: Tenants;
  readonly keys: Keys;
  readonly secrets: ServiceSecrets;
  readonly pageTokens: PageTokens;
  readonly publicUrl: () => string;
}

/** Reads what belongs to a resource, for many callers with one query. */
const readByRef = <Row extends { readonly n: number }, V>(
  database: pg.Pool,
  read: Statement<[tenants: number[], kinds: string[], names: string[]], Row>,
  make: (ref: StoredRef, row: Row | undefined) => V,
): ((ref: StoredRef) => Promise<V>) =>
  batchReads(
    async (refs) => {
      const rows = await read(
        database,
        refs.map((r) => r.tenant),
        refs.map((r) => r.kind),
        refs.map((r) => r.name),
      );
      const found = new Map(rows.map((row) => [row.n - 1, row]));
      return refs.map((ref, i) => make(ref, found.get(i)));
    },
    { idOf: ({ tenant, kind, name }) => `${tenant}/${kind}/${name}` },
  );

/** Versioned documents by kind and name, each write with its reason on record. */
export class Catalog {
  readonly #options: CatalogOptions;
  readonly #documents: (ref: StoredRef) => Promise<Current | undefined>;
  readonly #sealed: (ref: StoredRef) => Promise<SealedRow | undefined>;

  constructor(options: CatalogOptions) {
    this.#options = options;
    this.#documents = readByRef(options.database, readResources, ({ kind, name }, row) => {
      const document = row?.document ?? builtin(kind, name);
      return document && { document, generation: row?.generation ?? 0 };
    });
    this.#sealed = readByRef(options.database, readSealed, (_, row) => row);
  }

  /** The current document, builtins included; for use by the service itself. */
  async document(tenant: number, kind: Kind, resourceName: string): Promise<Document | undefined> {
    return (await this.current(tenant, kind, resourceName))?.document;
  }

  /** The same with its generation; 0 for a builtin that was never written. */
  current(tenant: number, kind: Kind, resourceName: string): Promise<Current | undefined> {
    return this.#documents({ tenant, kind, name: resourceName });
  }

  /** With the address that the service has now. */
  #shown(kind: Kind, document: Document): Document {
    const { webhookUrl } = document;
    if (kind !== 'integration' || typeof webhookUrl !== 'string') return document;
    return { ...document, webhookUrl: webhookUrlOf(this.#options.publicUrl(), webhookUrl) };
  }

  /** All stored documents of a kind; for use by the service itself. */
  async documents(tenant: number, kind: Kind): Promise<{ name: string; document: Document }[]> {
    const rows = await listResources(this.#options.database, tenant, kind, '', limits.pageSize);
    return rows.map(({ name, document }) => ({ name, document: document ?? {} }));
  }

  /** The values of all secrets of a tenant, to mask them; for use by the service itself. */
  async secretValues(tenant: number): Promise<string[]> {
    const secrets = await this.documents(tenant, 'secret');
    const values = await Promise.all(secrets.map(({ name }) => this.secretValue(tenant, name)));
    return values.flatMap((found) => ('value' in found ? [found.value] : []));
  }

  /** The value of a secret, or why there is none; for use by the service itself. */
  async secretValue(tenant: number, name: string): Promise<SecretValue> {
    const { tenants, secrets } = this.#options;
    const row = await this.#sealed({ tenant, kind: 'secret', name });
    const howToSet = `set it: muster secret set ${name}`;
    if (!row) return { problem: `secret "${name}" not found; ${howToSet}` };
    if (!row.sealed || !row.secret_id) return { problem: `the secret "${name}" has no value; ${howToSet}` };
    const place = { tenant: await tenants.name(tenant), name };
    const value = unsealValue(secrets, place, { sealed: row.sealed, secretId: row.secret_id });
    return value === null ? { problem: `the secret "${name}" ${otherSecret}; ${howToSet}` } : { value };
  }

  /** The keys with which the callers of an integration may sign; for use by the service itself. */
  async signingKeys(tenant: number, name: string): Promise<string[]> {
    const { tenants, secrets } = this.#options;
    const row = await this.#sealed({ tenant, kind: 'integration', name });
    return row ? signingKeys(secrets, await tenants.name(tenant), name, row) : [];
  }

  /** What was not made with the current service secret: of the caller's tenant, or for an operator of all. */
  async outdatedSecrets(caller: Principal): Promise<Service['outdatedSecrets']> {
    if (caller.role !== 'admin' && caller.role !== 'operator') return [];
    const { database, secrets } = this.#options;
    const rows = await findOutdated(
      database,
      caller.tenant.id,
      caller.role === 'operator',
      secrets.current.id,
      secrets.previous !== null,
      limits.pageSize,
    );
    return rows.map(({ provider, org, kind, name, secret_id }) => ({
      tenant: { provider, org },
      kind,
      name,
      works: secret_id === null || secrets.find(secret_id) !== undefined,
    }));
  }

  async read(caller: Principal, tenantInput: TenantInput, ref: Ref): Promise<Resource | Refusal> {
    const kind = kindOf(ref.kind);
    const badName = kind && refuseName(ref);
    if (badName) return badName;
    const tenant = await this.#options.tenants.named(tenantInput, caller);
    if (isRefusal(tenant)) return tenant;
    if (kind === 'change-request') return this.#changeRequest(tenant, ref.name);
    const [row] = kind ? await readResource(this.#options.database, tenant, kind, ref.name) : [];
    const document = row?.document ?? (kind && builtin(kind, ref.name));
    if (!kind || !document) return notFound(`${ref.kind} "${ref.name}" not found`);
    return {
      kind,
      payload: encodePayload(this.#shown(kind, document)),
      inputFormat: inputFormatOf(kind),
      generation: String(row?.document ? row.generation : 0),
    };
  }

  /** Records of change requests have a table of their own, and no versions. */
  async #changeRequest(tenant: number, name: string): Promise<Resource | Refusal> {
    const { database, tenants } = this.#options;
    const [row] = await readChangeRequest(database, tenant, name);
    if (!row) return notFound(`change-request "${name}" not found`);
    const payload = encodePayload(changeRequestOf(row, await tenants.name(tenant)));
    return { kind: 'change-request', payload, inputFormat: inputFormatOf('change-request'), generation: '0' };
  }

  /** Rows of a kind behind this name. */
  async #rows(tenant: number, kind: Kind, after: string, count: number): Promise<Listed[]> {
    const { database, tenants } = this.#options;
    if (kind !== 'change-request') return listResources(database, tenant, kind, after, count);
    const rows = await listChangeRequests(database, tenant, after, count);
    const tenantName = await tenants.name(tenant);
    return rows.map((row) => ({
      name: row.name,
      generation: 0,
      document: changeRequestOf(row, tenantName),
    }));
  }

  async list(
    caller: Principal,
    tenantInput: TenantInput,
    kindName: string,
    pageSize: number,
    pageToken: string,
  ) {
    const kind = kindOf(kindName);
    const tenant = await this.#options.tenants.named(tenantInput, caller);
    if (isRefusal(tenant)) return tenant;
    if (!kind) return notFound(`kind "${kindName}" not found`);
    const { pageTokens } = this.#options;
    const list = `${kind}/${tenant}`;
    const after = pageToken && pageTokens.open(list, pageToken);
    if (isRefusal(after)) return after;
    const limit = Math.min(pageSize || limits.pageSize, limits.pageSize);
    const { rows: stored, hasMore } = await boundedPage(limit, (last: Listed | undefined, count) =>
      this.#rows(tenant, kind, last?.name ?? after, count),
    );
    const end = hasMore ? stored.at(-1)?.name : undefined;
    const missing = builtinNames(kind)
      .filter((n) => n > after && (end === undefined || n < end) && !stored.some((row) => row.name === n))
      .map((n) => ({ name: n, generation: 0, document: builtin(kind, n) ?? {} }));
    const all = [...stored, ...missing].sort((a, b) => (a.name < b.name ? -1 : 1));
    const entries = all.slice(0, limit).map((row) => ({
      kind,
      name: row.name,
      payload: encodePayload(this.#shown(kind, row.document ?? {})),
      inputFormat: inputFormatOf(kind),
      generation: String(row.generation),
      builtin: row.generation === 0 && kind !== 'change-request',
    }));
    const last = entries.at(-1)?.name ?? '';
    const isCut = hasMore || all.length > limit;
    return { entries, nextPageToken: isCut ? pageTokens.seal(list, last) : '' };
  }

  async history(caller: Principal, tenantInput: TenantInput, ref: Ref, pageSize: number, pageToken: string) {
    const kind = kindOf(ref.kind);
    const badName = kind && refuseName(ref);
    if (badName) return badName;
    const tenant = await this.#options.tenants.named(tenantInput, caller);
    if (isRefusal(tenant)) return tenant;
    if (!kind) return notFound(`kind "${ref.kind}" not found`);
    const limit = Math.min(pageSize || limits.pageSize, limits.pageSize);
    const { database, pageTokens } = this.#options;
    const list = `${kind}/${tenant}/${ref.name}`;
    const place = pageToken && pageTokens.open(list, pageToken);
    if (isRefusal(place)) return place;
    const before = place ? Number(place) : Number.MAX_SAFE_INTEGER;
    const { rows, hasMore } = await boundedPage(limit, (last: HistoryRow | undefined, count) =>
      readHistory(database, tenant, kind, ref.name, last?.generation ?? before, count),
    );
    if (rows.length === 0 && pageToken === '' && !builtin(kind, ref.name)) {
      return notFound(`${kind} "${ref.name}" not found`);
    }
    const entries = rows.map((row) => ({
      generation: String(row.generation),
      at: row.at,
      by: row.by,
      keyId: row.key_id,
      action: row.action,
      updateMask: row.update_mask,
      justification: row.justification,
      payload: row.document ? encodePayload(row.document) : '',
    }));
    const last = entries.at(-1)?.generation ?? '';
    return { entries, nextPageToken: hasMore ? pageTokens.seal(list, last) : '' };
  }

  async write(caller: Principal, ref: Ref, request: WriteRequest, givenKey?: KeyParts) {
    const write = checkWrite(caller, ref, request);
    if (isRefusal(write)) return write;
    const reply = await this.#transaction(caller, write, async (client, tenant, row) => {
      const decided = decideWrite(caller, write, row);
      if (isRefusal(decided)) return decided;
      const generation = row.generation + 1;
      const context = { ...this.#options, connection: client, tenantId: tenant, generation, givenKey };
      const secret = await saveSecret(context, write, decided, row);
      const document = withServerFields(caller, write, row, secret.document, row.now);
      if (isRefusal(document)) return document;
      const { kind, name } = write;
      const { nonce, sealed, secret_id } = secret.kept;
      const text = JSON.stringify(document);
      await writeResource(client, tenant, kind, name, generation, text, nonce, sealed, secret_id);
      await record(client, caller, write, tenant, row, 'WRITE', document);
      return { payload: encodePayload({ ...document, ...secret.revealed }), generation: String(generation) };
    });
    if (unstoredFields[write.kind]) await this.#options.keys.forget();
    return reply;
  }

  async delete(
    caller: Principal,
    tenantInput: TenantInput,
    ref: Ref,
    ifGeneration: string | undefined,
    justification: string | undefined,
  ) {
    const change = checkChange(caller, tenantInput, ref, ifGeneration, justification);
    if (isRefusal(change)) return change;
    const { kind, name } = change;
    const reply = await this.#transaction(caller, change, async (client, tenant, row) => {
      const refused = refuseDelete(caller, change, row);
      if (refused) return refused;
      const generation = row.generation + 1;
      await clearResource(client, tenant, kind, name, generation);
      await deleteKeys(client, tenant, kind, name, '');
      if (kind === 'integration') await deleteHook(client, tenant, name);
      await record(client, caller, change, tenant, row, 'DELETE', null);
      return { generation: String(generation) };
    });
    await this.#options.keys.forget();
    return reply;
  }

  /** Locks the resource, and writes everything or nothing. */
  async #transaction<R>(
    caller: Principal,
    change: CheckedChange,
    work: (client: pg.PoolClient, tenant: number, row: LockedResource) => Promise<R | Refusal>,
  ): Promise<R | Refusal> {
    const { tenants, database } = this.#options;
    // Only an operator's token creates a tenant.
    const creates = caller.role === 'operator' && change.kind === 'token';
    const tenant = await (creates ? tenants.create(change.tenant) : tenants.existing(change.tenant));
    if (isRefusal(tenant)) return tenant;
    const client = await database.connect();
    try {
      await begin(client);
      await reserveResource(client, tenant, change.kind, change.name);
      const [row] = await lockResource(client, tenant, change.kind, change.name);
      if (!row) throw new Error('the resource was not reserved');
      const reply = row.is_closed ? tenantClosed() : await work(client, tenant, row);
      await client.query(isRefusal(reply) ? 'ROLLBACK' : 'COMMIT');
      client.release();
      return reply;
    } catch (error) {
      await rollBack(client, error);
      throw error;
    }
  }
}

interface StoredRef {
  readonly tenant: number;
  readonly kind: Kind;
  readonly name: string;
}

/** The problem is a clause, such as: secret "x" not found; set it: … */
type Current = { readonly document: Document; readonly generation: number };

type Listed = Pick<ResourceRow, 'name' | 'generation' | 'document'>;

export type SecretValue = { readonly value: string } | { readonly problem: string };

const otherSecret =
  'was sealed with a service secret that this service does not have (MUSTER_SECRET, MUSTER_SECRET_PREVIOUS)';

async function record(
  client: pg.PoolClient,
  caller: Principal,
  change: CheckedChange & Partial<CheckedWrite>,
  tenant: number,
  { generation, now }: LockedResource,
  action: 'WRITE' | 'DELETE',
  document: Document | null,
): Promise<void> {
  const row = {
    tenant,
    kind: change.kind,
    name: change.name,
    generation: generation + 1,
    at: now,
    by: nameOf(caller),
    key_id: caller.keyId,
    action,
    update_mask: change.updateMask ?? '',
    justification: change.justification,
    document,
  };
  await insertHistory(client, JSON.stringify([row]));
}

/** So many documents are in memory at a time beyond those that a page shows. */
const chunkRows = 32;

/** A page of at most so many rows, and of no more documents than fit; at least one row, if there is any. */
async function boundedPage<R extends { readonly document: Document | null }>(
  limit: number,
  read: (last: R | undefined, count: number) => Promise<R[]>,
): Promise<{ rows: R[]; hasMore: boolean }> {
  const rows: R[] = [];
  let bytes = 0;
  for (;;) {
    // One more than wanted tells whether there is another page.
    const count = Math.min(chunkRows, limit + 1 - rows.length);
    const chunk = await read(rows.at(-1), count);
    for (const row of chunk) {
      bytes += Buffer.byteLength(JSON.stringify(row.document ?? {}));
      const isFull = rows.length === limit || (rows.length > 0 && bytes > limits.catalogPageBytes);
      if (isFull) return { rows, hasMore: true };
      rows.push(row);
    }
    if (chunk.length < count) return { rows, hasMore: false };
  }
}
