import { budget } from './kinds/budget.ts';
import { changeRequest } from './kinds/change-request.ts';
import { environment } from './kinds/environment.ts';
import { integration } from './kinds/integration.ts';
import type { KindEntry } from './kinds/kind.ts';
import { notification } from './kinds/notification.ts';
import { persona } from './kinds/persona.ts';
import { policy } from './kinds/policy.ts';
import { pool } from './kinds/pool.ts';
import { profile } from './kinds/profile.ts';
import { schedule } from './kinds/schedule.ts';
import { secret } from './kinds/secret.ts';
import { shareLink } from './kinds/share-link.ts';
import { signIn } from './kinds/sign-in.ts';
import { token } from './kinds/token.ts';
import { trigger } from './kinds/trigger.ts';
import { vmProfile } from './kinds/vm-profile.ts';
import { workspace } from './kinds/workspace.ts';
import type { inputFormats } from './resource.ts';
import type { Infer } from './schema.ts';

const table = {
  workspace,
  persona,
  environment,
  profile,
  'vm-profile': vmProfile,
  pool,
  trigger,
  policy,
  budget,
  notification,
  token,
  'share-link': shareLink,
  integration,
  schedule,
  'sign-in': signIn,
  secret,
  'change-request': changeRequest,
} as const satisfies Record<string, KindEntry>;

export type Kind = keyof typeof table;

/** The kinds of the catalog. Everything that differs between kinds is said here, or is code in control/catalog/kinds. */
export const kindTable: Readonly<Record<Kind, KindEntry>> = table;
export const kinds = Object.keys(table) as readonly Kind[];

/** The known fields of a document of this kind. */
export type KnownFields<K extends Kind> = Infer<(typeof table)[K]['schema']>;

const squeeze = (name: string): string => name.toLowerCase().replace(/[-_]/g, '').replace(/s$/, '');
const kindBySqueezed: ReadonlyMap<string, Kind> = new Map(
  kinds.flatMap((kind) => [squeeze(kind), ...(kindTable[kind].aliases ?? [])].map((name) => [name, kind])),
);

/** Kinds are matched ignoring case, `-`, `_` and a plural s. */
export const kindOf = (name: string): Kind | undefined => kindBySqueezed.get(squeeze(name));

export const inputFormatOf = (kind: Kind): (typeof inputFormats)[number] =>
  kindTable[kind].prose === undefined ? 'INPUT_FORMAT_YAML' : 'INPUT_FORMAT_MARKDOWN';

/** The field that a write may set and that no reply shows. */
export function sealedFieldOf(kind: Kind): string | undefined {
  const { secret } = kindTable[kind];
  return secret?.isSealed ? secret.field : undefined;
}

/** The field with the secret, in the one reply that creates or rotates it. */
export function shownOnceFieldOf(kind: Kind): string | undefined {
  const { secret } = kindTable[kind];
  return secret?.isSealed ? undefined : secret?.field;
}

/** Fields that the service sets. */
export const serverFieldsOf = (kind: Kind): readonly string[] => [
  'createdAt',
  'createdBy',
  'updatedAt',
  'updatedBy',
  ...(kindTable[kind].serverFields ?? []),
];

/** The document of a builtin resource. */
export function builtin(kind: Kind, name: string): Record<string, unknown> | undefined {
  const { builtins = {} } = kindTable[kind];
  return Object.hasOwn(builtins, name) ? { name, ...builtins[name] } : undefined;
}

export const builtinNames = (kind: Kind): readonly string[] => Object.keys(kindTable[kind].builtins ?? {});
