import {
  inputFormatOf,
  type Kind,
  kindOf,
  kinds,
  limits,
  nameExpected,
  namePattern,
  type Provider,
  type Resource,
  serverFields,
  type WriteRequest,
} from '@muster/sdk/contract';
import type pg from 'pg';
import { invalid, isRefusal, notFound, precondition, type Refusal } from '../../domain/refusal.ts';
import type { KeyParts } from '../../lib/token.ts';
import { deleteKeys } from '../../store/statements/keys.ts';
import {
  type HistoryRow,
  insertHistory,
  listResources,
  lockResource,
  type ResourceRow,
  readHistory,
  readResource,
  readResources,
  reserveResource,
  writeResource,
} from '../../store/statements/resources.ts';
import { batchReads } from '../batch-reads.ts';
import { nameTenant, type TenantName } from '../identify.ts';
import type { Keys } from '../keys.ts';
import type { PageTokens } from '../page-tokens.ts';
import { refuseBuiltinName, refuseCreator, refuseResource, refuseTenant, refuseToken } from '../permit.ts';
import { nameOf, type Principal } from '../principal.ts';
import type { Tenants } from '../tenants.ts';
import { boundedPage } from './bounded-page.ts';
import { builtin, builtinNames } from './builtins.ts';
import {
  type Document,
  decodePayload,
  encodePayload,
  parseMask,
  patched,
  refuseDocument,
} from './document.ts';
import { completeShareLink, completeToken, saveSecret, unstoredFields } from './secrets.ts';

export interface CatalogOptions {
  readonly database: pg.Pool;
  readonly tenants: Tenants;
  readonly keys: Keys;
  readonly serviceSecret: string;
  readonly pageTokens: PageTokens;
  readonly publicUrl: () => string;
}

export interface Ref {
  readonly kind: string;
  readonly name: string;
}

type TenantInput = { provider?: Provider | '' | undefined; org?: string | undefined } | undefined;

interface Write {
  readonly kind: Kind;
  readonly name: string;
  readonly tenant: TenantName;
  readonly ifGeneration: bigint | null;
  readonly justification: string;
}

const name = new RegExp(namePattern);

/** Versioned documents by kind and name, each write with its reason on record. */
export class Catalog {
  readonly #options: CatalogOptions;
  readonly #documents: (ref: { tenant: number; kind: Kind; name: string }) => Promise<Document | undefined>;

  constructor(options: CatalogOptions) {
    this.#options = options;
    this.#documents = batchReads(async (refs) => {
      const rows = await readResources(
        options.database,
        refs.map((r) => r.tenant),
        refs.map((r) => r.kind),
        refs.map((r) => r.name),
      );
      const found = new Map(rows.map((row) => [row.n - 1, row.document]));
      return refs.map((ref, i) => found.get(i) ?? builtin(ref.kind, ref.name));
    });
  }

  /** A document as it stands, builtins included; for use by the service itself. */
  document(tenant: number, kind: Kind, resourceName: string): Promise<Document | undefined> {
    return this.#documents({ tenant, kind, name: resourceName });
  }

  async read(caller: Principal, tenantInput: TenantInput, ref: Ref): Promise<Resource | Refusal> {
    const kind = kindOf(ref.kind);
    if (kind && !name.test(ref.name)) return invalid('ref.name', `must be ${nameExpected}`);
    const tenant = nameTenant(tenantInput, caller);
    const refused = refuseTenant(caller, tenant);
    if (refused) return refused;
    const id = await this.#options.tenants.find(tenant);
    if (id === undefined) return noTenant(tenant);
    const [row] = kind ? await readResource(this.#options.database, id, kind, ref.name) : [];
    const document = row?.document ?? (kind && builtin(kind, ref.name));
    if (!kind || !document) return notFound(`there is no ${ref.kind} "${ref.name}"`);
    return {
      kind,
      payload: encodePayload(document),
      inputFormat: inputFormatOf(kind),
      generation: String(row?.document ? row.generation : 0),
    };
  }

  async list(
    caller: Principal,
    tenantInput: TenantInput,
    kindName: string,
    pageSize: number,
    pageToken: string,
  ) {
    const kind = kindOf(kindName);
    const tenant = nameTenant(tenantInput, caller);
    const refused = refuseTenant(caller, tenant);
    if (refused) return refused;
    if (!kind) return notFound(`there is no kind "${kindName}"`);
    const id = await this.#options.tenants.find(tenant);
    if (id === undefined) return noTenant(tenant);
    const { database, pageTokens } = this.#options;
    const list = `${kind}/${id}`;
    const after = pageToken && pageTokens.open(list, pageToken);
    if (isRefusal(after)) return after;
    const limit = Math.min(pageSize || limits.pageSize, limits.pageSize);
    const { rows: stored, hasMore } = await boundedPage(limit, (last: ResourceRow | undefined, count) =>
      listResources(database, id, kind, last?.name ?? after, count),
    );
    const end = hasMore ? stored.at(-1)?.name : undefined;
    const missing = builtinNames(kind)
      .filter((n) => n > after && (end === undefined || n < end) && !stored.some((row) => row.name === n))
      .map(
        (n): ResourceRow => ({ kind, name: n, generation: 0, document: builtin(kind, n) ?? {}, nonce: null }),
      );
    const all = [...stored, ...missing].sort((a, b) => (a.name < b.name ? -1 : 1));
    const entries = all.slice(0, limit).map((row) => ({
      kind,
      name: row.name,
      payload: encodePayload(row.document ?? {}),
      inputFormat: inputFormatOf(kind),
      generation: String(row.generation),
      builtin: row.generation === 0,
    }));
    const last = entries.at(-1)?.name ?? '';
    const isCut = hasMore || all.length > limit;
    return { entries, nextPageToken: isCut ? pageTokens.seal(list, last) : '' };
  }

  async history(caller: Principal, tenantInput: TenantInput, ref: Ref, pageSize: number, pageToken: string) {
    const kind = kindOf(ref.kind);
    if (kind && !name.test(ref.name)) return invalid('ref.name', `must be ${nameExpected}`);
    const tenant = nameTenant(tenantInput, caller);
    const refused = refuseTenant(caller, tenant);
    if (refused) return refused;
    if (!kind) return notFound(`there is no kind "${ref.kind}"`);
    const id = await this.#options.tenants.find(tenant);
    if (id === undefined) return noTenant(tenant);
    const limit = Math.min(pageSize || limits.pageSize, limits.pageSize);
    const { database, pageTokens } = this.#options;
    const list = `${kind}/${id}/${ref.name}`;
    const place = pageToken && pageTokens.open(list, pageToken);
    if (isRefusal(place)) return place;
    const before = place ? Number(place) : Number.MAX_SAFE_INTEGER;
    const { rows, hasMore } = await boundedPage(limit, (last: HistoryRow | undefined, count) =>
      readHistory(database, id, kind, ref.name, last?.generation ?? before, count),
    );
    if (rows.length === 0 && pageToken === '' && !builtin(kind, ref.name)) {
      return notFound(`there is no ${kind} "${ref.name}"`);
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
    const { ref: repeated } = request;
    if (repeated?.kind && kindOf(repeated.kind) !== kindOf(ref.kind)) {
      return invalid('ref.kind', `differs from the path, which says "${ref.kind}"`);
    }
    if (repeated?.name && repeated.name !== ref.name) {
      return invalid('ref.name', `differs from the path, which says "${ref.name}"`);
    }
    const payload = decodePayload(request.payload ?? '');
    if (isRefusal(payload)) return payload;
    const mask = parseMask(request.updateMask ?? '');
    if (mask !== null && isRefusal(mask)) return mask;
    const checked = this.#checkWrite(
      caller,
      repeated?.tenant,
      ref,
      request.ifGenerationMatch,
      request.justification,
    );
    if (isRefusal(checked)) return checked;
    const { kind } = checked;
    const { rotate = false } = unstoredFields[kind] ? payload : {};
    if (typeof rotate !== 'boolean') return invalid('payload.rotate', 'must be a boolean');

    const reply = await this.#transaction(caller, checked, async (client, id, row, now) => {
      const existing = row.document ?? builtin(kind, checked.name) ?? null;
      if (mask && !existing && checked.ifGeneration !== 0n) {
        return notFound(`there is no ${kind} "${checked.name}"`);
      }
      const refused = this.#refuseDocument(caller, checked, id, row.document);
      if (refused) return refused;
      const stale = refuseGeneration(checked, row);
      if (stale) return stale;
      const next = mask ? patched(existing ?? {}, payload, mask) : payload;
      if (isRefusal(next)) return next;
      const stripped = without(next, ['name', ...serverFields, ...(unstoredFields[kind] ?? [])]);
      const wrong = refuseDocument(kind, stripped);
      if (wrong) return wrong;
      const completed = this.#complete(caller, checked, id, stripped);
      if (isRefusal(completed)) return completed;

      const generation = row.generation + 1;
      const context = {
        connection: client,
        caller,
        tenant: { id, ...checked.tenant },
        kind,
        name: checked.name,
        generation,
        serviceSecret: this.#options.serviceSecret,
        publicUrl: this.#options.publicUrl(),
        ...(givenKey && { givenKey }),
      };
      const secret = unstoredFields[kind]
        ? await saveSecret(context, completed, rotate, row.nonce)
        : { document: completed, revealed: {}, nonce: null };
      const by = nameOf(caller);
      const document: Document = {
        ...secret.document,
        name: checked.name,
        createdAt: row.document?.createdAt ?? now,
        createdBy: row.document?.createdBy ?? by,
        updatedAt: now,
        updatedBy: by,
      };
      const text = JSON.stringify(document);
      if (Buffer.byteLength(text) > limits.documentBytes + 4096) {
        return invalid('payload', `the document must be at most ${limits.documentBytes} bytes`);
      }
      await writeResource(client, id, kind, checked.name, generation, text, secret.nonce);
      await this.#record(
        client,
        id,
        checked,
        caller,
        generation,
        now,
        'WRITE',
        request.updateMask ?? '',
        document,
      );
      return { payload: encodePayload({ ...document, ...secret.revealed }), generation: String(generation) };
    });
    if (unstoredFields[kind]) this.#options.keys.forget();
    return reply;
  }

  async delete(
    caller: Principal,
    tenantInput: TenantInput,
    ref: Ref,
    ifGeneration: string | undefined,
    justification: string | undefined,
  ) {
    const checked = this.#checkWrite(caller, tenantInput, ref, ifGeneration, justification);
    if (isRefusal(checked)) return checked;
    const { kind } = checked;
    const reply = await this.#transaction(caller, checked, async (client, id, row, now) => {
      if (!row.document) {
        return builtin(kind, checked.name)
          ? precondition(
              'BUILTIN',
              checked.name,
              `the ${kind} "${checked.name}" is built in and can't be deleted`,
            )
          : notFound(`there is no ${kind} "${checked.name}"`);
      }
      const refused = this.#refuseDocument(caller, checked, id, row.document);
      if (refused) return refused;
      const stale = refuseGeneration(checked, row);
      if (stale) return stale;
      const generation = row.generation + 1;
      await writeResource(client, id, kind, checked.name, generation, null, null);
      await deleteKeys(client, id, kind, checked.name, '');
      await this.#record(client, id, checked, caller, generation, now, 'DELETE', '', null);
      return { generation: String(generation) };
    });
    this.#options.keys.forget();
    return reply;
  }

  /** What can be said about a write without looking at the resource. */
  #checkWrite(
    caller: Principal,
    tenantInput: TenantInput,
    ref: Ref,
    ifGenerationMatch: string | number | undefined,
    justification = '',
  ): Write | Refusal {
    const kind = kindOf(ref.kind);
    if (!kind) return invalid('ref.kind', `must be one of ${kinds.join(', ')}`);
    if (!name.test(ref.name)) return invalid('ref.name', `must be ${nameExpected}`);
    const ifGeneration =
      ifGenerationMatch === undefined || ifGenerationMatch === '' ? null : BigInt(ifGenerationMatch);
    if (ifGeneration !== null && ifGeneration < 0n) return invalid('ifGenerationMatch', 'must be 0 or more');
    const tenant = nameTenant(tenantInput, caller);
    const refused =
      refuseResource(caller, tenant, kind) ??
      (builtin(kind, ref.name) ? refuseBuiltinName(caller, kind, ref.name) : null);
    if (caller.role === 'operator' && justification.trim() === '') {
      return invalid('justification', "is required for an operator's write");
    }
    if (refused) return refused;
    if (kind === 'change-request') {
      return precondition('READ_ONLY', ref.name, 'change-request records are read only');
    }
    return { kind, name: ref.name, tenant, ifGeneration, justification };
  }

  /** Whether the caller may write this document: the one that is stored, and the one that takes its place. */
  #refuseDocument(
    caller: Principal,
    { kind, tenant }: Write,
    id: number,
    document: Document | null,
  ): Refusal | null {
    if (document === null) return null;
    if (kind === 'token') return refuseToken(caller, document as Parameters<typeof refuseToken>[1]);
    const isOfCreator = kind === 'persona' || (kind === 'share-link' && !document.agentId);
    if (isOfCreator) return refuseCreator(caller, kind, document.createdBy);
    if (kind !== 'share-link') return null;
    const completed = completeShareLink(caller, { id, ...tenant }, document);
    return isRefusal(completed) ? completed : null;
  }

  #complete(caller: Principal, write: Write, id: number, document: Document): Document | Refusal {
    const { kind, tenant } = write;
    if (kind === 'share-link') return completeShareLink(caller, { id, ...tenant }, document);
    if (kind !== 'token') return document;
    const completed = completeToken(caller, document);
    return isRefusal(completed)
      ? completed
      : (this.#refuseDocument(caller, write, id, completed) ?? completed);
  }

  /** Locks the resource and writes all or nothing. */
  async #transaction<R>(
    caller: Principal,
    write: Write,
    work: (client: pg.PoolClient, tenant: number, row: ResourceRow, now: string) => Promise<R | Refusal>,
  ): Promise<R | Refusal> {
    const { tenants, database } = this.#options;
    // Only an operator's token brings a tenant into being.
    const creates = caller.role === 'operator' && write.kind === 'token';
    const tenant = creates ? await tenants.create(write.tenant) : await tenants.find(write.tenant);
    if (tenant === undefined) return noTenant(write.tenant);
    const client = await database.connect();
    let isBroken = false;
    try {
      await client.query('BEGIN');
      await reserveResource(client, tenant, write.kind, write.name);
      const [row] = await lockResource(client, tenant, write.kind, write.name);
      if (!row) throw new Error('the resource was not reserved');
      const reply = await work(client, tenant, row, row.now);
      await client.query(isRefusal(reply) ? 'ROLLBACK' : 'COMMIT');
      return reply;
    } catch (error) {
      isBroken = await client.query('ROLLBACK').then(
        () => false,
        () => true,
      );
      throw error;
    } finally {
      client.release(isBroken);
    }
  }

  async #record(
    client: pg.PoolClient,
    tenant: number,
    write: Write,
    caller: Principal,
    generation: number,
    at: string,
    action: 'WRITE' | 'DELETE',
    updateMask: string,
    document: Document | null,
  ): Promise<void> {
    const row = {
      tenant,
      kind: write.kind,
      name: write.name,
      generation,
      at,
      by: nameOf(caller),
      key_id: caller.keyId,
      action,
      update_mask: updateMask,
      justification: write.justification,
      document,
    };
    await insertHistory(client, JSON.stringify(row));
  }
}

/** Only an operator can name a tenant that is not its own. */
const noTenant = ({ provider, org }: TenantName): Refusal =>
  notFound(`there is no tenant ${provider}/${org}`);

function refuseGeneration(write: Write, row: ResourceRow): Refusal | null {
  const current = row.document ? BigInt(row.generation) : 0n;
  return write.ifGeneration === null || write.ifGeneration === current
    ? null
    : precondition(
        'GENERATION',
        `${write.kind}/${write.name}`,
        `ifGenerationMatch is ${write.ifGeneration}, the current generation is ${current}`,
      );
}

function without(document: Document, fields: readonly string[]): Document {
  return Object.fromEntries(Object.entries(document).filter(([field]) => !fields.includes(field)));
}
