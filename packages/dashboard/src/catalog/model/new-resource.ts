import type { AgentId, Caller } from '@muster/sdk';
import { type FormField, type Kind, kindTable, mayGiveRole, pathOf, roles } from '@muster/sdk/contract';
import { type Expiry, expiresAt, expiryInDays } from '../../parts/model/expiry.ts';
import { schemaOf } from './document-schema.ts';

/** What is filled in for a new resource: the text of each field, and when it expires. */
export interface NewResource {
  readonly texts: Readonly<Record<string, string>>;
  readonly expiry: Expiry;
}

const formOf = (kind: Kind): readonly FormField[] => kindTable[kind].form ?? [];

export function emptyResource(kind: Kind): NewResource {
  const texts = formOf(kind).map(({ field, initial = '' }) => [field, initial]);
  const days = formOf(kind).find((field) => field.days)?.days ?? 0;
  return { texts: Object.fromEntries(texts), expiry: expiryInDays(days) };
}

/** The fields to ask for, as far as they apply to what is filled in. */
export const shownFields = (kind: Kind, { texts }: NewResource): readonly FormField[] =>
  formOf(kind).filter(({ role }) => role === undefined || role === texts.role);

interface Input {
  readonly type: 'account' | 'agent' | 'choice' | 'expiry' | 'resource' | 'text' | 'value';
  readonly label: string;
  readonly hint: string;
  /** Of a choice. */
  readonly options: readonly string[];
  /** The kind of which a resource is named. */
  readonly kind: Kind;
}

/** How a field is asked for. What the caller may choose depends on its role. */
export function inputOf(kind: Kind, field: string, caller: Caller): Input {
  const schema = schemaOf(kind).properties?.[field] ?? {};
  const words = field.replace(/Id$/, '').replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  const { secret } = kindTable[kind];
  const type = schema.format
    ? 'expiry'
    : schema.names !== undefined
      ? 'resource'
      : schema.title === 'AgentIdInput'
        ? 'agent'
        : schema.enum
          ? 'choice'
          : secret?.isSealed && secret.field === field
            ? 'value'
            : field === 'account'
              ? 'account'
              : 'text';
  return {
    type,
    label: words.charAt(0).toUpperCase() + words.slice(1),
    hint: schema.description ?? '',
    options: field === 'role' ? givableRoles(caller) : (schema.enum ?? []).map(String),
    kind: (schema.names ?? kind) as Kind,
  };
}

/** The roles that the caller may give to a new key. */
const givableRoles = (caller: Caller): readonly string[] =>
  roles.filter((role) => mayGiveRole(caller.role, role));

/** `api/tests · default · ada`: path, workspace and owner. */
export const agentText = (id: AgentId): string => [pathOf(id), id.workspace, id.account].join(' · ');

/** The document of the form. The service fills in missing fields. */
export function documentOf(
  kind: Kind,
  filled: NewResource,
  caller: Caller,
  agents: ReadonlyMap<string, AgentId>,
): Record<string, unknown> {
  const document: Record<string, unknown> = {};
  for (const { field } of shownFields(kind, filled)) {
    const text = filled.texts[field] ?? '';
    const { type } = inputOf(kind, field, caller);
    const expires = type === 'expiry' && expiresAt(filled.expiry);
    if (expires) document[field] = expires;
    if (type === 'expiry') continue;
    if (type === 'agent') document[field] = agents.get(text) ?? { agent: pathIn(text) };
    else if (type === 'value') document[field] = text;
    // Without an account it is the caller's.
    else if (type !== 'account' || !['', caller.account].includes(text.trim())) document[field] = text.trim();
  }
  return document;
}

const pathIn = (typed: string): string[] => {
  const [path = ''] = typed.split(' · ');
  return path
    .split('/')
    .map((part) => part.trim())
    .filter(Boolean);
};
