import {
  type AgentIdInput,
  type Kind,
  kindOf,
  kinds,
  limits,
  nameExpected,
  namePattern,
  type ShareLinkDocument,
  serverFieldsOf,
  type Tenant,
  type TokenDocument,
  type WriteRequest,
} from '@muster/sdk/contract';
import { invalid, isRefusal, notFound, precondition, type Refusal } from '../../domain/refusal.ts';
import type { ResourceRow } from '../../store/statements/resources.ts';
import { nameAgent, nameTenant, type TenantInput } from '../identify.ts';
import { refuseAgent, refuseBuiltinName, refuseCreator, refuseResource, refuseToken } from '../permit.ts';
import { nameOf, type Principal } from '../principal.ts';
import {
  builtin,
  type Document,
  decodePayload,
  parseMask,
  patched,
  refuseDocument,
  without,
} from './document.ts';

/** What a write or a delete may do, and what it leads to. Nothing here reads or writes the store. */
export interface Ref {
  readonly kind: string;
  readonly name: string;
}

/** A write or a delete as far as it can be checked without the stored resource. */
export interface CheckedChange {
  readonly kind: Kind;
  readonly name: string;
  readonly tenant: Tenant;
  readonly ifGeneration: bigint | null;
  readonly justification: string;
}

export interface CheckedWrite extends CheckedChange {
  readonly payload: Document;
  /** Null replaces the whole document. */
  readonly mask: readonly string[][] | null;
  readonly updateMask: string;
  readonly rotate: boolean;
  /** Of a secret. Undefined keeps the stored value, null removes it. */
  readonly value: string | null | undefined;
}

/** Fields that a client may send back but that are never stored. Only kinds with a secret have them. */
export const unstoredFields: Readonly<Partial<Record<Kind, readonly string[]>>> = {
  token: ['key', 'rotate'],
  'share-link': ['url', 'rotate'],
  integration: ['signingKey', 'rotate'],
  secret: ['value'],
};

const name = new RegExp(namePattern);

export const refuseName = (ref: Ref): Refusal | null =>
  name.test(ref.name) ? null : invalid('ref.name', `must be ${nameExpected}`);

export function checkWrite(caller: Principal, ref: Ref, request: WriteRequest): CheckedWrite | Refusal {
  const { ref: repeated, payload: encoded = '', updateMask = '' } = request;
  if (repeated?.kind && kindOf(repeated.kind) !== kindOf(ref.kind)) {
    return invalid('ref.kind', `differs from the path, which says "${ref.kind}"`);
  }
  if (repeated?.name && repeated.name !== ref.name) {
    return invalid('ref.name', `differs from the path, which says "${ref.name}"`);
  }
  const payload = decodePayload(encoded);
  if (isRefusal(payload)) return payload;
  const mask = parseMask(updateMask);
  if (isRefusal(mask)) return mask;
  const { ifGenerationMatch, justification } = request;
  const change = checkChange(caller, repeated?.tenant, ref, ifGenerationMatch, justification);
  if (isRefusal(change)) return change;
  const { rotate = false } = unstoredFields[change.kind]?.includes('rotate') ? payload : {};
  if (typeof rotate !== 'boolean') return invalid('payload.rotate', 'must be a boolean');
  const value = change.kind === 'secret' ? newValue(payload, mask) : undefined;
  return isRefusal(value) ? value : { ...change, payload, mask, updateMask, rotate, value };
}

/** A mask that names the value removes it if the payload has none; without a mask it stays. */
function newValue(payload: Document, mask: readonly string[][] | null): string | null | undefined | Refusal {
  const isNamed = mask?.some(([first]) => first === 'value') ?? false;
  if (mask && !isNamed) return undefined;
  const value = payload.value ?? (isNamed ? null : undefined);
  if (value === null || value === undefined) return value;
  const isValue =
    typeof value === 'string' && value !== '' && Buffer.byteLength(value) <= limits.secretValueBytes;
  return isValue
    ? value
    : invalid('payload.value', `must be a text of 1 to ${limits.secretValueBytes} bytes`);
}

export function checkChange(
  caller: Principal,
  tenantInput: TenantInput,
  ref: Ref,
  ifGenerationMatch: string | number | undefined,
  justification = '',
): CheckedChange | Refusal {
  const kind = kindOf(ref.kind);
  if (!kind) return invalid('ref.kind', `must be one of ${kinds.join(', ')}`);
  const badName = refuseName(ref);
  if (badName) return badName;
  const ifGeneration =
    ifGenerationMatch === undefined || ifGenerationMatch === '' ? null : BigInt(ifGenerationMatch);
  if (ifGeneration !== null && ifGeneration < 0n) return invalid('ifGenerationMatch', 'must be 0 or more');
  if (caller.role === 'operator' && justification.trim() === '') {
    return invalid('justification', "is required for an operator's write");
  }
  const tenant = nameTenant(tenantInput, caller);
  const refused =
    refuseResource(caller, tenant, kind) ??
    (builtin(kind, ref.name) ? refuseBuiltinName(caller, kind, ref.name) : null);
  if (refused) return refused;
  if (kind === 'change-request') {
    return precondition('READ_ONLY', ref.name, 'change-request records are read only');
  }
  return { kind, name: ref.name, tenant, ifGeneration, justification };
}

type Stored = Pick<ResourceRow, 'generation' | 'document'>;

/** The document that a write leads to, without what the server adds to it. */
export function decideWrite(caller: Principal, write: CheckedWrite, stored: Stored): Document | Refusal {
  const { kind, mask, payload } = write;
  const existing = stored.document ?? builtin(kind, write.name) ?? null;
  if (mask && !existing && write.ifGeneration !== 0n) return notFound(`${kind} "${write.name}" not found`);
  const refused = refuseStored(caller, write, stored);
  if (refused) return refused;
  const next = mask ? patched(existing ?? {}, payload, mask) : payload;
  if (isRefusal(next)) return next;
  const document = without(next, ['name', ...serverFieldsOf(kind), ...(unstoredFields[kind] ?? [])]);
  return refuseDocument(kind, document) ?? completed(caller, write, document);
}

export function refuseDelete(caller: Principal, change: CheckedChange, stored: Stored): Refusal | null {
  const { kind } = change;
  if (stored.document) return refuseStored(caller, change, stored);
  return builtin(kind, change.name)
    ? precondition('BUILTIN', change.name, `the ${kind} "${change.name}" is built in and can't be deleted`)
    : notFound(`${kind} "${change.name}" not found`);
}

/** With the fields that the server sets; refused if it is too large. */
export function withServerFields(
  caller: Principal,
  { name: resourceName }: CheckedWrite,
  stored: Stored,
  document: Document,
  now: string,
): Document | Refusal {
  const by = nameOf(caller);
  const whole: Document = {
    ...document,
    name: resourceName,
    createdAt: stored.document?.createdAt ?? now,
    createdBy: stored.document?.createdBy ?? by,
    updatedAt: now,
    updatedBy: by,
  };
  return Buffer.byteLength(JSON.stringify(whole)) > limits.documentBytes + 4096
    ? invalid('payload', `the document must be at most ${limits.documentBytes} bytes`)
    : whole;
}

function refuseStored(caller: Principal, change: CheckedChange, stored: Stored): Refusal | null {
  return refuseOwner(caller, change, stored.document) ?? refuseGeneration(change, stored);
}

/** Whether the caller may write this document: the stored one, and the one that replaces it. */
function refuseOwner(caller: Principal, change: CheckedChange, document: Document | null): Refusal | null {
  const { kind } = change;
  if (document === null) return null;
  if (kind === 'token') return refuseToken(caller, document as Parameters<typeof refuseToken>[1]);
  if (kind === 'persona' || (kind === 'share-link' && !document.agentId))
    return refuseCreator(caller, kind, document.createdBy);
  if (kind !== 'share-link') return null;
  const link = completeShareLink(caller, change.tenant, document);
  return isRefusal(link) ? link : null;
}

function refuseGeneration({ kind, name: resourceName, ifGeneration }: CheckedChange, stored: Stored) {
  const current = stored.document ? BigInt(stored.generation) : 0n;
  if (ifGeneration === null || ifGeneration === current) return null;
  const message = `ifGenerationMatch is ${ifGeneration}, the current generation is ${current}`;
  return precondition('GENERATION', `${kind}/${resourceName}`, message);
}

function completed(caller: Principal, write: CheckedWrite, document: Document): Document | Refusal {
  if (write.kind === 'share-link') return completeShareLink(caller, write.tenant, document);
  if (write.kind !== 'token') return document;
  const token = completeToken(caller, document);
  return isRefusal(token) ? token : (refuseOwner(caller, write, token) ?? token);
}

/** Fills in a token: by default it has the role member and is for the account of its creator. */
function completeToken(caller: Principal, document: Document): Document | Refusal {
  const { role, ownerProvider, account, pool } = document as TokenDocument;
  if (role === 'agent' || role === 'share')
    return invalid('payload.role', `a key of role ${role} can't be created`);
  return {
    ...document,
    role: role ?? 'member',
    ownerProvider:
      ownerProvider && ownerProvider !== 'PROVIDER_UNSPECIFIED' ? ownerProvider : caller.ownerProvider,
    account: account || caller.account,
    ...(role === 'runner' && { pool: pool || 'default' }),
  };
}

/** Fills in whose agent a link shows; a member may only share its own agents. */
function completeShareLink(caller: Principal, tenant: Tenant, document: Document): Document | Refusal {
  const { agentId } = document as ShareLinkDocument;
  if (!agentId) return document;
  const inTenant = { ...caller, tenant: { ...caller.tenant, ...tenant } };
  const named = nameAgent(agentId as AgentIdInput, inTenant);
  if (named.tenant.provider !== tenant.provider || named.tenant.org !== tenant.org) {
    return invalid('payload.agentId.tenant', 'must be the tenant of the share link');
  }
  const refused = caller.role === 'member' ? refuseAgent(inTenant, 'command', named) : null;
  const { path, ...rest } = named;
  return refused ?? { ...document, agentId: { ...rest, agent: [...path] } };
}
