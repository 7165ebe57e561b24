import { type Caller, type CatalogEntry, FailedPreconditionError } from '@muster/sdk';
import { type Kind, type KindEntry, kinds, kindTable, providerName } from '@muster/sdk/contract';

type Document = Readonly<Record<string, unknown>>;

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Null if it never expires. */
export const expiryOf = ({ expiresAt }: Document): string | null => text(expiresAt) || null;
export const isExpired = (document: Document, nowMs: number): boolean =>
  Date.parse(expiryOf(document) ?? '') <= nowMs;

/** `personas, triggers and tokens`. */
function titlesOf(writers: KindEntry['writers']): string {
  const titles = kinds
    .map((kind) => kindTable[kind])
    .filter((entry) => entry.writers === writers)
    .map(({ title }) => title.toLowerCase());
  return [titles.slice(0, -1).join(', '), ...titles.slice(-1)].filter(Boolean).join(' and ');
}

/**
 * Why the caller may not write a resource; null if it may. The service decides; this only keeps the page from offering
 * writes that would fail. `stored` is the current document.
 */
export function writeRefusal(caller: Caller, kind: Kind, stored: Document | null = null): string | null {
  const { title, one, writers, schema } = kindTable[kind];
  if (writers === 'nobody') return `${title} are read-only records.`;
  if (caller.role === 'viewer') return 'Read-only access. Your key has the viewer role.';
  if (caller.role !== 'member') return null;
  if (writers !== 'members') return `Read-only access. Members can write their own ${titlesOf('members')}.`;
  const { agentId, account } = schema.properties;
  const owned = agentId ? stored?.agentId : account && stored;
  return owned && !isOwn(caller, owned as Document)
    ? `Read-only access. This ${one} belongs to another account.`
    : null;
}

const usualDeleting = {
  verb: 'Delete',
  effect: 'It is deleted for everyone. Its history and all of its versions are kept.',
};

/** What deleting a resource is called, and what it leads to. */
export const deletingOf = (kind: Kind) => kindTable[kind].deleting ?? usualDeleting;

/** `codehost_oauth/ada`. */
const ownerOf = ({ ownerProvider, account }: Caller): string => `${providerName(ownerProvider)}/${account}`;

/** An empty account means the caller's. */
const isOwn = (caller: Caller, { account, ownerProvider }: Document): boolean =>
  (!account || account === caller.account || account === ownerOf(caller)) &&
  (!ownerProvider || ownerProvider === 'PROVIDER_UNSPECIFIED' || ownerProvider === caller.ownerProvider);

/** Whether a write failed because the resource has another generation than the one that was read. */
export const isGenerationConflict = (error: unknown): boolean =>
  error instanceof FailedPreconditionError && error.violations.some(({ type }) => type === 'GENERATION');

type Entry = Pick<CatalogEntry<Document>, 'kind' | 'name' | 'document'>;

/** Each word of the search must occur in the name or the summary. */
export function matches({ kind, name, document }: Entry, search: string): boolean {
  const text = `${name} ${kindTable[kind as Kind].summary(document)}`.toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
