import type { CatalogEntry } from '@muster/sdk';
import { type Kind, kindTable } from '@muster/sdk/contract';
import { useRef } from 'react';
import { Link, useSearchParams } from 'wouter';
import { SearchField } from '../../parts/field.tsx';
import { useShortcuts } from '../../parts/page.tsx';
import { Age, useNow } from '../../parts/times.tsx';
import { expiryOf, isExpired } from '../model/resource.ts';

type Entry = CatalogEntry<Readonly<Record<string, unknown>>>;

/** `isMixed` shows the kind of each resource. */
export const ResourceList = ({
  entries,
  isMixed = false,
}: {
  readonly entries: readonly Entry[];
  readonly isMixed?: boolean;
}) => (
  <ul className="resource-list">
    {entries.map((entry) => (
      <li key={`${entry.kind}/${entry.name}`}>
        <ResourceRow entry={entry} isMixed={isMixed} />
      </li>
    ))}
  </ul>
);

function ResourceRow({ entry, isMixed }: { readonly entry: Entry; readonly isMixed: boolean }) {
  const { name, document, builtin, generation } = entry;
  const kind = entry.kind as Kind;
  const { updatedAt, updatedBy } = document;
  return (
    <Link href={`/catalog/${kind}/${encodeURIComponent(name)}`}>
      <span className="resource-name">
        {name}
        {isMixed && <small>{kindTable[kind].one}</small>}
      </span>
      <span className="resource-summary">
        <ExpiryMark document={document} />
        {kindTable[kind].summary(document)}
      </span>
      <span className="resource-origin">{originOf(kind, builtin, generation)}</span>
      <span className="resource-change">
        {typeof updatedAt === 'string' && (
          <>
            {typeof updatedBy === 'string' && <span title={updatedBy}>{updatedBy.replace(/^.*\//, '')}</span>}
            <span>
              <Age since={updatedAt} /> ago
            </span>
          </>
        )}
      </span>
    </Link>
  );
}

/** Records of the service have no generations. */
const originOf = (kind: Kind, builtin: boolean, generation: string): string =>
  kindTable[kind].writers === 'nobody' ? '' : builtin ? 'builtin' : `generation ${generation}`;

/** When a key or a link expires or has expired. */
export function ExpiryMark({ document }: { readonly document: Readonly<Record<string, unknown>> }) {
  const now = useNow();
  const at = expiryOf(document);
  if (at === null) return null;
  const day = new Date(at).toLocaleDateString(undefined, { dateStyle: 'medium' });
  return isExpired(document, now) ? (
    <span className="expiry-mark" data-expired="true">
      expired
    </span>
  ) : (
    <span className="expiry-mark">expires {day}</span>
  );
}

/** `/` focuses the search, and Enter moves the focus into the list. */
export function CatalogSearch({ label }: { readonly label: string }) {
  const [searched, search] = useSearched();
  const field = useRef<HTMLInputElement>(null);
  useShortcuts({ '/': () => field.current?.focus() });
  const enterList = () => document.querySelector<HTMLElement>('.resource-list a')?.focus();
  return (
    <SearchField
      label={label}
      placeholder={`${label} by name or summary`}
      text={searched}
      field={field}
      onSearch={search}
      onLeave={enterList}
    />
  );
}

/** The search of the catalog is stored in the URL. */
export function useSearched(): readonly [searched: string, search: (text: string) => void] {
  const [parameters, setParameters] = useSearchParams();
  const search = (text: string) => setParameters(text === '' ? {} : { q: text }, { replace: true });
  return [(parameters.get('q') ?? '').trim(), search];
}
