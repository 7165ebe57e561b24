import {
  builtin,
  type Kind,
  kindOf,
  kinds,
  kindTable,
  limits,
  nameExpected,
  namePattern,
  sealedFieldOf,
  shownOnceFieldOf,
  type Tenant,
  type WriteRequest,
} from '@muster/sdk/contract';
import { invalid, isRefusal, precondition, type Refusal } from '../../domain/refusal.ts';
import { unsafeText } from '../../lib/json.ts';
import { refuseBuiltinName, refuseResource } from '../access/permit.ts';
import type { Principal } from '../access/principal.ts';
import { nameTenant, type TenantInput } from '../agents/identify.ts';
import { type Document, decodePayload, shown, typeText } from './document.ts';
import { parseMask } from './update-mask.ts';

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
  /** As the author wrote the payload; empty if it came without. */
  readonly text: string;
  /** Null replaces the whole document. */
  readonly mask: readonly string[][] | null;
  readonly updateMask: string;
  readonly rotate: boolean;
  /** Of the sealed field. Undefined keeps the stored value, null removes it. */
  readonly value: string | null | undefined;
}

const name = new RegExp(namePattern);

export const refuseName = (ref: Ref): Refusal | null =>
  name.test(ref.name) ? null : invalid('ref.name', `must be ${nameExpected}; got ${shown(ref.name)}`);

export function checkWrite(caller: Principal, ref: Ref, request: WriteRequest): CheckedWrite | Refusal {
  const { ref: repeated, payload: encoded = '', updateMask = '' } = request;
  if (repeated?.kind && kindOf(repeated.kind) !== kindOf(ref.kind)) {
    return invalid(
      'ref.kind',
      `differs from the path, which says "${ref.kind}"; got ${shown(repeated.kind)}`,
    );
  }
  if (repeated?.name && repeated.name !== ref.name) {
    return invalid(
      'ref.name',
      `differs from the path, which says "${ref.name}"; got ${shown(repeated.name)}`,
    );
  }
  const payload = decodePayload(encoded);
  if (isRefusal(payload)) return payload;
  const mask = parseMask(updateMask);
  if (isRefusal(mask)) return mask;
  const { ifGenerationMatch, justification } = request;
  const change = checkChange(caller, repeated?.tenant, ref, ifGenerationMatch, justification);
  if (isRefusal(change)) return change;
  const { rotate = false } = shownOnceFieldOf(change.kind) ? payload : {};
  if (typeof rotate !== 'boolean')
    return invalid('payload.rotate', `must be a boolean; got ${shown(rotate)}`);
  const badText = refuseText(request.text ?? '', mask);
  if (badText) return badText;
  const sealedField = sealedFieldOf(change.kind);
  const value = sealedField ? newValue(sealedField, payload, mask) : undefined;
  return isRefusal(value)
    ? value
    : { ...change, payload, text: request.text ?? '', mask, updateMask, rotate, value };
}

function refuseText(text: string, mask: CheckedWrite['mask']): Refusal | null {
  if (text !== '' && mask) return invalid('text', 'is for a whole document; leave out updateMask');
  const bytes = Buffer.byteLength(text);
  if (bytes > limits.documentTextBytes)
    return invalid('text', `must be at most ${limits.documentTextBytes} bytes; got ${bytes}`);
  const unsafe = unsafeText(text);
  return unsafe === null ? null : invalid('text', unsafe);
}

/** A mask that names the value removes it if the payload has none; without a mask it stays. */
function newValue(
  field: string,
  payload: Document,
  mask: readonly string[][] | null,
): string | null | undefined | Refusal {
  const isNamed = mask?.some(([first]) => first === field) ?? false;
  if (mask && !isNamed) return undefined;
  const value = payload[field] ?? (isNamed ? null : undefined);
  if (value === null || value === undefined) return value;
  const expected = `must be a text of 1 to ${limits.secretValueBytes} bytes`;
  // Never the value itself: it is a secret.
  if (typeof value !== 'string') return invalid(`payload.${field}`, `${expected}; got ${typeText(value)}`);
  const bytes = Buffer.byteLength(value);
  return bytes > 0 && bytes <= limits.secretValueBytes
    ? value
    : invalid(`payload.${field}`, `${expected}; got ${bytes}`);
}

export function checkChange(
  caller: Principal,
  tenantInput: TenantInput,
  ref: Ref,
  ifGenerationMatch: string | number | undefined,
  justification = '',
): CheckedChange | Refusal {
  const kind = kindOf(ref.kind);
  if (!kind) return invalid('ref.kind', `must be one of ${kinds.join(', ')}; got ${shown(ref.kind)}`);
  const badName = refuseName(ref);
  if (badName) return badName;
  const ifGeneration =
    ifGenerationMatch === undefined || ifGenerationMatch === '' ? null : BigInt(ifGenerationMatch);
  if (ifGeneration !== null && ifGeneration < 0n)
    return invalid('ifGenerationMatch', `must be 0 or more; got ${ifGeneration}`);
  if (caller.role === 'operator' && justification.trim() === '') {
    return invalid('justification', "is required for an operator's write");
  }
  const tenant = nameTenant(tenantInput, caller);
  const refused =
    refuseResource(caller, tenant, kind) ??
    (builtin(kind, ref.name) ? refuseBuiltinName(caller, kind, ref.name) : null);
  if (refused) return refused;
  if (kindTable[kind].writers === 'nobody')
    return precondition('READ_ONLY', ref.name, `${kind} records are read only`);
  return { kind, name: ref.name, tenant, ifGeneration, justification };
}
