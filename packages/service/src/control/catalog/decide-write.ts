import {
  builtin,
  builtinNames,
  type Kind,
  kinds,
  kindTable,
  limits,
  serverFieldsOf,
} from '@muster/sdk/contract';
import { invalid, isRefusal, notFound, precondition, type Refusal } from '../../domain/refusal.ts';
import { validator } from '../../lib/validator.ts';
import type { ResourceRow } from '../../store/statements/resources.ts';
import { refuseCreator } from '../access/permit.ts';
import { nameOf, type Principal } from '../access/principal.ts';
import type { CheckedChange, CheckedWrite } from './check-write.ts';
import { type Document, without } from './document.ts';
import { rulesOf } from './kinds.ts';
import { patched } from './update-mask.ts';

/** What a write leads to, given what is stored. Nothing here reads or writes the store. */
type Stored = Pick<ResourceRow, 'generation' | 'document'>;

/** Fields that a client may send back but that are never stored. Only kinds with a secret have them. */
function unstoredFields(kind: Kind): readonly string[] {
  const { secret } = kindTable[kind];
  if (!secret) return [];
  return secret.isSealed ? [secret.field] : [secret.field, 'rotate'];
}

/** The document that a write leads to, without what the server adds to it. */
export function decideWrite(caller: Principal, write: CheckedWrite, stored: Stored): Document | Refusal {
  const { kind, mask, payload } = write;
  const existing = stored.document ?? builtin(kind, write.name) ?? null;
  if (mask && !existing && write.ifGeneration !== 0n) return notFound(`${kind} "${write.name}" not found`);
  const refused = refuseStored(caller, write, stored) ?? (existing ? null : refuseSimilarName(write));
  if (refused) return refused;
  const next = mask ? patched(existing ?? {}, payload, mask) : payload;
  if (isRefusal(next)) return next;
  const document = without(next, ['name', ...serverFieldsOf(kind), ...unstoredFields(kind)]);
  const { complete } = rulesOf(kind);
  return (
    refuseDocument(kind, document) ?? complete?.(caller, write.tenant, document, stored.document) ?? document
  );
}

const validators = new Map(kinds.map((kind) => [kind, validator(kindTable[kind].schema)]));

/** Known fields must have their type; a null one counts as absent. Other fields may have any value. */
function refuseDocument(kind: Kind, document: Document): Refusal | null {
  const absentFields = Object.keys(kindTable[kind].schema.properties).filter(
    (field) => document[field] === null,
  );
  const violation =
    validators.get(kind)?.(without(document, absentFields)) ?? rulesOf(kind).check?.(document) ?? null;
  return violation
    ? invalid(violation.field ? `payload.${violation.field}` : 'payload', violation.description)
    : null;
}

/** A reader would take `Default` for `default`. One that is stored already can be changed and deleted. */
function refuseSimilarName({ kind, name: given }: CheckedWrite): Refusal | null {
  const similar = builtinNames(kind).find((one) => one === given.toLowerCase());
  return similar === undefined
    ? null
    : invalid('ref.name', `differs from the builtin "${similar}" only in case; got "${given}"`);
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
  const bytes = Buffer.byteLength(JSON.stringify(whole));
  return bytes > limits.documentBytes + 4096
    ? invalid('payload', `must be at most ${limits.documentBytes} bytes as JSON; got ${bytes}`)
    : whole;
}

function refuseStored(caller: Principal, change: CheckedChange, stored: Stored): Refusal | null {
  const { kind, tenant } = change;
  const { refuse } = rulesOf(kind);
  const { document } = stored;
  const refused =
    document && (refuse ? refuse(caller, tenant, document) : refuseCreator(caller, kind, document.createdBy));
  return refused ?? refuseGeneration(change, stored);
}

function refuseGeneration({ kind, name: resourceName, ifGeneration }: CheckedChange, stored: Stored) {
  const current = stored.document ? BigInt(stored.generation) : 0n;
  if (ifGeneration === null || ifGeneration === current) return null;
  const message = `ifGenerationMatch is ${ifGeneration}, the current generation is ${current}`;
  return precondition('GENERATION', `${kind}/${resourceName}`, message);
}
