import type { CatalogEntry } from '@muster/sdk';
import type { Kind } from '@muster/sdk/contract';
import { Link } from 'wouter';
import { Age, useNow } from '../parts/times.tsx';
import { kindWords } from './kind-words.ts';
import { expiryOf, isExpired, summaryOf } from './summary.ts';
import './resource-list.css';

type Entry = CatalogEntry<Readonly<Record<string, unknown>>>;

/** Resources, one a row; `isMixed` when they are of several kinds, and each says of which. */
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
        {isMixed && <small>{kindWords[kind].one}</small>}
      </span>
      <span className="resource-summary">
        <ExpiryMark document={document} />
        {summaryOf(kind, document)}
      </span>
      <span className="resource-origin">{builtin ? 'builtin' : `generation ${generation}`}</span>
      <span className="resource-change">
        {typeof updatedAt === 'string' && (
          <>
            <span title={String(updatedBy)}>{String(updatedBy).replace(/^.*\//, '')}</span>
            <span>
              <Age since={updatedAt} /> ago
            </span>
          </>
        )}
      </span>
    </Link>
  );
}

/** Says that a key or a link no longer works, or until when it does. */
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
    <span className="expiry-mark">until {day}</span>
  );
}
