import { type Kind, kindTable, tenantName, unknownFields, type WriteRequest } from '@muster/sdk/contract';
import type pg from 'pg';
import { invalid, isRefusal, type Refusal, tenantClosed } from '../../domain/refusal.ts';
import { heapBytesOf } from '../../lib/json.ts';
import type { KeyParts } from '../../lib/token.ts';
import { begin, rollBack } from '../../store/connection.ts';
import {
  clearResource,
  type LockedResource,
  lockResource,
  reserveResource,
  writeResource,
} from '../../store/statements/resources.ts';
import type { Principal } from '../access/principal.ts';
import type { TenantInput } from '../agents/identify.ts';
import type { CatalogOptions } from './catalog-options.ts';
import { type CheckedChange, type CheckedWrite, checkChange, checkWrite, type Ref } from './check-write.ts';
import { decideWrite, refuseDelete, withServerFields } from './decide-write.ts';
import { type Document, encodePayload } from './document.ts';
import { nothingKept, type Saved } from './kinds/rules.ts';
import { rulesOf } from './kinds.ts';
import { bytesOf, describe, refuseKindFull } from './resource-index.ts';
import { documentWarnings } from './warnings.ts';
import { recordWrite } from './write-records.ts';
import { type WrittenText, writtenText } from './written-text.ts';

/** A guess for what a record of a write has beside the document. */
const recordBytes = 512;

interface Locked {
  readonly client: pg.PoolClient;
  readonly tenant: number;
  readonly row: LockedResource;
}

interface WriteSettings {
  /** Answers what a write would, without one-time secrets. Nothing stays written, and no tenant is created. */
  readonly isTrial?: boolean;
  /** Used instead of a generated one. */
  readonly givenKey?: KeyParts | undefined;
}

export async function writeOne(
  options: CatalogOptions,
  caller: Principal,
  ref: Ref,
  request: WriteRequest,
  { isTrial = false, givenKey }: WriteSettings = {},
) {
  const write = checkWrite(caller, ref, request);
  if (isRefusal(write)) return write;
  const refusedNew = isTrial ? null : await refuseNewTenant(options, caller, write);
  if (refusedNew) return refusedNew;
  const full = await refuseStorage(options, caller, write);
  if (full) return full;
  for (let tries = 1; ; tries += 1) {
    const written = await writtenText(options, caller, write);
    if (isRefusal(written)) return written;
    const reply = await writeWith(
      options,
      caller,
      write,
      { isTrial, givenKey },
      written,
      tries === mostTries,
    );
    if (reply === changedMeanwhile) continue;
    if (!isTrial && kindTable[write.kind].secret) await options.keys.forget();
    return reply;
  }
}

/** How often a text is computed again because others wrote the resource meanwhile; then the document is stored without. */
const mostTries = 5;
const changedMeanwhile = Symbol('changed meanwhile');

async function writeWith(
  options: CatalogOptions,
  caller: Principal,
  write: CheckedWrite,
  { isTrial = false, givenKey }: WriteSettings,
  written: WrittenText,
  isLast: boolean,
) {
  const work = async (locked: Locked) => {
    const decided = await decide(caller, write, locked);
    if (isRefusal(decided)) return decided;
    const isFitting = written.isOf(locked.row, decided);
    if (!isFitting && !isLast) return changedMeanwhile;
    const text = isFitting ? written.text : null;
    const saved: Saved | Refusal = isTrial
      ? { document: decided }
      : await saveParts(options, write, locked, decided, givenKey);
    if (isRefusal(saved)) return saved;
    const { row, client, tenant } = locked;
    const document = withServerFields(caller, write, row, saved.document, row.now);
    if (isRefusal(document)) return document;
    const warnings = await documentWarnings(client, tenant, write.kind, decided, options.ownModels);
    const full = isTrial ? null : await store(options, caller, write, locked, document, text, saved.kept);
    if (full) return full;
    const payload = encodePayload({ ...document, ...saved.revealed });
    return { payload, text: text ?? '', generation: String(row.generation + 1), warnings };
  };
  return inTransaction(options, caller, write, work, isTrial);
}

export async function deleteOne(
  options: CatalogOptions,
  caller: Principal,
  tenantInput: TenantInput,
  ref: Ref,
  ifGeneration: string | undefined,
  justification: string | undefined,
) {
  const change = checkChange(caller, tenantInput, ref, ifGeneration, justification);
  if (isRefusal(change)) return change;
  const { kind, name } = change;
  const reply = await inTransaction(options, caller, change, async ({ client, tenant, row }) => {
    const refused = refuseDelete(caller, change, row);
    if (refused) return refused;
    const generation = row.generation + 1;
    await rulesOf(kind).onDelete?.(client, tenant, row);
    await clearResource(client, tenant, kind, name, generation);
    await describe(client, { tenant, kind, name, generation, document: null, bytesBeside: 0 });
    await recordWrite(client, caller, change, tenant, row, 'DELETE', null);
    return { generation: String(generation) };
  });
  await options.keys.forget();
  return reply;
}

/** A tenant can't be deleted, so a write that would create one is refused unless it says exactly what is meant. */
async function refuseNewTenant({ tenants }: CatalogOptions, caller: Principal, write: CheckedWrite) {
  const { kind, tenant, payload } = write;
  if (!createsTenant(caller, kind) || (await tenants.find(tenant)) !== undefined) return null;
  const [unknown] = unknownFields(kind, payload);
  if (unknown) return invalid(`payload.${unknown.field}`, unknown.description);
  const decided = decideWrite(caller, write, { generation: 0, document: null });
  if (isRefusal(decided)) return decided;
  const name = tenantName(tenant);
  return payload.role
    ? null
    : invalid('payload.role', `is required in the first token of a tenant: "admin" creates ${name}`);
}

const createsTenant = ({ role }: Principal, kind: Kind): boolean =>
  role === 'operator' && rulesOf(kind).createsTenant === true;

/** Only an operator may write what exceeds the quota: it can also raise it. */
async function refuseStorage(
  { tenants, quotas }: CatalogOptions,
  caller: Principal,
  { tenant, payload, text, updateMask, justification }: CheckedWrite,
): Promise<Refusal | null> {
  const id = caller.role === 'operator' ? undefined : await tenants.find(tenant);
  if (id === undefined) return null;
  const bytes = recordBytes + heapBytesOf([payload, text, updateMask, justification]);
  return quotas.refuse('storage', { ...caller, tenant: id }, bytes);
}

/** The document that the write leads to, before its kind and the service add to it. */
async function decide(caller: Principal, write: CheckedWrite, { client, tenant, row }: Locked) {
  const { refuseNew } = rulesOf(write.kind);
  const refused = row.document ? null : await refuseNew?.(client, tenant, caller, row);
  return refused ?? decideWrite(caller, write, row);
}

/** Writes what the kind keeps beside the document. */
async function saveParts(
  { secrets, publicUrl }: CatalogOptions,
  write: CheckedWrite,
  { client: connection, tenant, row }: Locked,
  document: Document,
  givenKey: KeyParts | undefined,
): Promise<Saved | Refusal> {
  const { onWrite } = rulesOf(write.kind);
  const transaction = { connection, tenant, write, row, secrets, publicUrl, givenKey };
  return onWrite ? onWrite(transaction, document) : { document };
}

/** Writes the document, its record in the history, and what is known of it; refused if the tenant has too much of the kind. */
async function store(
  { quotas }: CatalogOptions,
  caller: Principal,
  write: CheckedWrite,
  { client, tenant, row }: Locked,
  document: Document,
  text: string | null,
  { nonce, sealed, secret_id } = nothingKept,
): Promise<Refusal | null> {
  const { kind, name } = write;
  const generation = row.generation + 1;
  const bytesBeside = (sealed?.length ?? 0) + Buffer.byteLength(text ?? '');
  const before = row.document ? bytesOf(row.document) + (row.sealed?.length ?? 0) + row.text_bytes : 0;
  const growth = { documents: row.document ? 0 : 1, bytes: bytesOf(document) + bytesBeside - before };
  const full = await refuseKindFull(client, caller, { tenant, kind }, growth);
  if (full) return full;
  const json = JSON.stringify(document);
  await writeResource(client, tenant, kind, name, generation, json, nonce, sealed, secret_id, text);
  await describe(client, { tenant, kind, name, generation, document, bytesBeside });
  await recordWrite(client, caller, write, tenant, row, 'WRITE', document, text);
  quotas.stored({ ...caller, tenant }, recordBytes + json.length + (text?.length ?? 0));
  return null;
}

/** Locks the resource, and writes everything or nothing; a trial writes nothing. */
async function inTransaction<R>(
  { tenants, database }: CatalogOptions,
  caller: Principal,
  { kind, name, tenant: named }: CheckedChange,
  work: (locked: Locked) => Promise<R>,
  isTrial = false,
): Promise<R | Refusal> {
  const creates = !isTrial && createsTenant(caller, kind);
  const tenant = await (creates ? tenants.create(named) : tenants.existing(named));
  if (isRefusal(tenant)) return tenant;
  const client = await database.connect();
  try {
    await begin(client);
    await reserveResource(client, tenant, kind, name);
    const [row] = await lockResource(client, tenant, kind, name);
    if (!row) throw new Error('the resource was not reserved');
    const reply = row.is_closed ? tenantClosed() : await work({ client, tenant, row });
    const isKept = !isTrial && !isRefusal(reply) && reply !== changedMeanwhile;
    await client.query(isKept ? 'COMMIT' : 'ROLLBACK');
    client.release();
    return reply;
  } catch (error) {
    await rollBack(client, error);
    throw error;
  }
}
