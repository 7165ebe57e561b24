import { limits } from '@muster/sdk/contract';
import { hashSecret } from '../lib/token.ts';

export type Claims = Readonly<Record<string, unknown>>;

/** Who a provider says that somebody is. */
export interface Person {
  /** The id at the provider, which never changes. */
  readonly subject: string;
  readonly displayName: string;
  /** The account name that fits best. */
  readonly name: string;
  /** Addresses that the provider has verified, in lower case. */
  readonly emails: readonly string[];
  /** What proves to which organization the person belongs, in lower case. */
  readonly domains: readonly string[];
  readonly groups: readonly string[];
  /** Of GitHub, in lower case: `acme`, and `acme/platform`. */
  readonly orgs: readonly string[];
  readonly teams: readonly string[];
  /** What an admin sees of it, bounded and without tokens. */
  readonly claims: Claims;
  /** Why groups are missing; empty if they are not. */
  readonly note: string;
}

export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

const mostNameLength = 64;
const mostShownLength = 200;

/** The first of these that has letters or digits, as an account name; otherwise one that is made from the subject. */
export function accountName(wishes: readonly string[], subject: string): string {
  for (const wish of wishes) {
    const [local = ''] = wish.slice(0, mostShownLength).split('@');
    const name = local
      .normalize('NFKC')
      .toLowerCase()
      .replace(/[^a-z0-9._-]+/g, '-')
      .replace(/^[-._]+/, '')
      .slice(0, mostNameLength)
      .replace(/[-._]+$/, '');
    if (name !== '') return name;
  }
  return `user-${hashSecret(subject).toString('hex').slice(0, 12)}`;
}

/** A line that people read. */
export const shownName = (text: string): string =>
  text
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .slice(0, mostShownLength);

/** Claims of the protocol, which say nothing about the person. */
const unshown = new Set(
  'iss sub aud exp iat nbf auth_time nonce acr amr azp at_hash c_hash s_hash jti sid session_state'.split(
    ' ',
  ),
);
const mostClaims = 60;
const mostItems = 100;
const mostTextLength = 256;

/** The claims of a person, as far as there is room; `first` is the one that matters most. */
export function shownClaims(claims: Claims, first: string): Claims {
  const names = Object.keys(claims).filter((name) => !unshown.has(name) && name !== first);
  const shown: Record<string, unknown> = {};
  let bytes = 0;
  for (const name of [first, ...names].slice(0, mostClaims)) {
    if (!Object.hasOwn(claims, name) || name.length > mostTextLength || name === '__proto__') continue;
    const value = shownValue(claims[name]);
    const size = Buffer.byteLength(JSON.stringify([name, value]));
    if (bytes + size > limits.claimBytes) continue;
    bytes += size;
    shown[name] = value;
  }
  return shown;
}

function shownValue(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed().replaceAll('\0', '').slice(0, mostTextLength);
  if (Array.isArray(value)) {
    const items = value
      .slice(0, mostItems)
      .map((item) => shownValue(typeof item === 'object' ? JSON.stringify(item) : item));
    return value.length > mostItems ? [...items, `and ${value.length - mostItems} more`] : items;
  }
  return typeof value === 'object' && value !== null ? shownValue(JSON.stringify(value)) : value;
}
