import type { CatalogEntry } from '@muster/sdk';
import { kinds } from '@muster/sdk/contract';
import { useQueries } from '@tanstack/react-query';
import { Link } from 'wouter';
import { resourcesQuery } from '../live/resources.ts';
import { useClient } from '../session/session.ts';
import type { Document } from './catalog-queries.ts';
import { CatalogSearch } from './catalog-search.tsx';
import { kindGroups, kindWords } from './kind-words.ts';
import { ResourceList } from './resource-list.tsx';
import { matches, useSearched } from './searched.ts';
import { useCounts } from './use-counts.ts';
import './catalog-overview.css';

/** What there is, kind by kind; with a search, everything that fits it. */
export function CatalogOverview() {
  const [searched] = useSearched();
  return (
    <>
      <header className="catalog-head">
        <div>
          <h1>Catalog</h1>
          <p>What agents work with, as versioned documents. Every change is on record.</p>
        </div>
      </header>
      <CatalogSearch label="Search the catalog" />
      {searched === '' ? (
        <>
          <Kinds />
          <ChangedLast />
        </>
      ) : (
        <Found searched={searched} />
      )}
    </>
  );
}

function Kinds() {
  const counts = useCounts();
  return (
    <div className="catalog-overview">
      {kindGroups.map(([title, inGroup]) => (
        <section key={title}>
          <h2>{title}</h2>
          <ul>
            {inGroup.map((kind) => (
              <li key={kind}>
                <Link href={`/catalog/${kind}`}>
                  <strong>{kindWords[kind].title}</strong>
                  <span>{kindWords[kind].purpose}</span>
                  <span className="catalog-overview-count">{counts.get(kind)}</span>
                </Link>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}

const mostChanged = 5;

/** What somebody may look for without knowing its kind. */
function ChangedLast() {
  const when = ({ document }: CatalogEntry<Document>) => String(document.updatedAt ?? '');
  const changed = useLists()
    .flatMap(({ data }) => data ?? [])
    .filter((entry) => !entry.builtin)
    .sort((a, b) => (when(a) < when(b) ? 1 : -1))
    .slice(0, mostChanged);
  if (changed.length === 0) return null;
  return (
    <section className="catalog-overview" aria-labelledby="changed-last">
      <h2 id="changed-last">Changed last</h2>
      <ResourceList entries={changed} isMixed />
    </section>
  );
}

function useLists() {
  const client = useClient();
  return useQueries({ queries: kinds.map((kind) => resourcesQuery(client, kind)) });
}

function Found({ searched }: { readonly searched: string }) {
  const lists = useLists();
  const found = lists.flatMap(({ data }) => (data ?? []).filter((entry) => matches(entry, searched)));
  if (found.length === 0 && lists.every(({ isSuccess }) => isSuccess))
    return <p className="catalog-note">Nothing in the catalog has “{searched}” in its name or summary.</p>;
  return <ResourceList entries={found} isMixed />;
}
