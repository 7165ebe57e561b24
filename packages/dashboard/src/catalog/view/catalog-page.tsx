import type { CatalogEntry } from '@muster/sdk';
import { type Kind, type KindGroup, kindGroups, kindOf, kinds, kindTable } from '@muster/sdk/contract';
import { useQueries, useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link, useParams, useSearchParams } from 'wouter';
import { resourcesQuery } from '../../live/resources.ts';
import { Button } from '../../parts/button.tsx';
import { Empty, useTitle } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { useClient, useSignedIn } from '../../session/session.ts';
import { matches, writeRefusal } from '../model/resource.ts';
import { NewResourceDialog } from './new-resource-dialog.tsx';
import type { CreatedSecret, Document } from './queries.ts';
import { ResourceSecret } from './resource-dialogs.tsx';
import { CatalogSearch, ResourceList, useSearched } from './resource-list.tsx';
import { ResourcePage } from './resource-page.tsx';
import '../catalog.css';
import '../form.css';

/** All kinds, the resources of one kind, or one resource, depending on the URL. */
export function CatalogPage() {
  const { kind: kindName, name } = useParams<{ kind?: string; name?: string }>();
  const kind = kindName === undefined ? undefined : kindOf(kindName);
  const title = name ?? (kind ? kindTable[kind].title : 'Catalog');
  useTitle(`${title} · Muster`);

  if (kindName !== undefined && !kind)
    return (
      <Empty title={`Unknown kind “${kindName}”`}>
        <p>
          <Link href="/catalog">Go to the catalog</Link>
        </p>
      </Empty>
    );
  return (
    <div className="catalog-page" data-overview={kind === undefined}>
      {kind && <KindNav current={kind} />}
      <div className="catalog-content stack">
        {kind === undefined && <CatalogOverview />}
        {kind !== undefined && name === undefined && <KindPage key={kind} kind={kind} />}
        {kind !== undefined && name !== undefined && (
          <ResourcePage key={`${kind}/${name}`} kind={kind} name={name} />
        )}
      </div>
    </div>
  );
}

const kindsIn = (group: KindGroup): readonly Kind[] =>
  kinds.filter((kind) => kindTable[kind].group === group);

function KindNav({ current }: { readonly current: Kind }) {
  const counts = useCounts();
  return (
    <nav className="kind-nav stack" aria-label="Catalog kinds">
      {kindGroups.map((group) => (
        <div key={group}>
          <p>{group}</p>
          <ul>
            {kindsIn(group).map((kind) => (
              <li key={kind}>
                <Link
                  className="nav-link"
                  href={`/catalog/${kind}`}
                  {...(kind === current && { 'aria-current': 'page' as const })}
                >
                  {kindTable[kind].title}
                  <span className="kind-count">{counts.get(kind)}</span>
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

/** All kinds; with a search, all matching resources. */
function CatalogOverview() {
  const [searched] = useSearched();
  return (
    <>
      <header className="catalog-head wrap">
        <div>
          <h1>Catalog</h1>
          <p>Versioned settings for your agents. Every change is recorded.</p>
        </div>
      </header>
      <CatalogSearch label="Search the catalog" />
      {searched === '' ? (
        <>
          <Kinds />
          <RecentlyChanged />
        </>
      ) : (
        <SearchResults searched={searched} />
      )}
    </>
  );
}

function Kinds() {
  const counts = useCounts();
  return (
    <div className="catalog-overview stack">
      {kindGroups.map((group) => (
        <section key={group}>
          <h2>{group}</h2>
          <ul>
            {kindsIn(group).map((kind) => (
              <li key={kind}>
                <Link href={`/catalog/${kind}`}>
                  <strong>{kindTable[kind].title}</strong>
                  <span>{kindTable[kind].purpose}</span>
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

const recentCount = 5;

function RecentlyChanged() {
  const when = ({ document }: CatalogEntry<Document>) => String(document.updatedAt ?? '');
  const changed = useLists()
    .flatMap(({ data }) => data ?? [])
    .filter((entry) => !entry.builtin)
    .sort((a, b) => (when(a) < when(b) ? 1 : -1))
    .slice(0, recentCount);
  if (changed.length === 0) return null;
  return (
    <section className="catalog-overview stack" aria-labelledby="recently-changed">
      <h2 id="recently-changed">Recently changed</h2>
      <ResourceList entries={changed} isMixed />
    </section>
  );
}

function useLists() {
  const client = useClient();
  return useQueries({ queries: kinds.map((kind) => resourcesQuery(client, kind)) });
}

function SearchResults({ searched }: { readonly searched: string }) {
  const lists = useLists();
  const found = lists.flatMap(({ data }) => (data ?? []).filter((entry) => matches(entry, searched)));
  if (found.length === 0 && lists.every(({ isSuccess }) => isSuccess))
    return <p className="secondary">No resource has “{searched}” in its name or summary.</p>;
  return <ResourceList entries={found} isMixed />;
}

/** The number of resources of each kind that has loaded. */
function useCounts(): ReadonlyMap<Kind, number> {
  const client = useClient();
  const lists = useQueries({ queries: kinds.map((kind) => resourcesQuery(client, kind)) });
  const lengths = lists.map(({ data }) => data?.length).join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: only the lengths are used.
  return useMemo(
    () =>
      new Map(kinds.flatMap((kind, at) => (lists[at]?.data ? [[kind, lists[at].data.length] as const] : []))),
    [lengths],
  );
}

interface KindHeadProps {
  readonly kind: Kind;
  /** Why the caller may not create one. */
  readonly refusal: string | null;
  readonly onNew: () => void;
}

function KindHead({ kind, refusal, onNew }: KindHeadProps) {
  const { title, one, purpose } = kindTable[kind];
  return (
    <>
      <header className="catalog-head wrap">
        <div>
          <nav className="catalog-crumbs wrap" aria-label="Breadcrumb">
            <Link href="/catalog">Catalog</Link>
          </nav>
          <h1>{title}</h1>
          <p>{purpose}</p>
        </div>
        {refusal === null && (
          <Button look="primary" onClick={onNew}>
            New {one}
          </Button>
        )}
      </header>
      {refusal !== null && <p className="secondary">{refusal}</p>}
    </>
  );
}

function KindPage({ kind }: { readonly kind: Kind }) {
  const { client, caller } = useSignedIn();
  const { data, error, refetch } = useQuery({
    ...resourcesQuery(client, kind),
    // The list must be current; the default is for the options of a form.
    staleTime: 0,
  });
  const [searched] = useSearched();
  const [isCreating, setCreating] = useNewDialog();
  const [created, setCreated] = useState<CreatedSecret | null>(null);
  const refusal = writeRefusal(caller, kind);
  const { one } = kindTable[kind];
  const shown = data?.filter((entry) => searched === '' || matches(entry, searched));
  return (
    <>
      <KindHead kind={kind} refusal={refusal} onNew={() => setCreating(true)} />
      <Problem error={error}>
        <Button onClick={() => refetch()}>Try again</Button>
      </Problem>
      {data && data.length > 0 && <CatalogSearch label={`Search ${one}s`} />}
      {shown && shown.length > 0 && <ResourceList entries={shown} />}
      {data && data.length > 0 && shown?.length === 0 && (
        <p className="secondary">
          None of {data.length} has “{searched}” in its name or summary.
        </p>
      )}
      {data?.length === 0 && <NoResources kind={kind} mayWrite={refusal === null} />}
      {isCreating && refusal === null && (
        <NewResourceDialog
          kind={kind}
          names={data?.map(({ name }) => name) ?? []}
          onClose={() => setCreating(false)}
          onCreated={(made) => {
            setCreating(false);
            setCreated(made);
          }}
        />
      )}
      {created && <ResourceSecret {...created} onClose={() => setCreated(null)} />}
    </>
  );
}

/** The address with `?new` opens it. */
function useNewDialog(): readonly [boolean, (isOpen: boolean) => void] {
  const [parameters, setParameters] = useSearchParams();
  const set = (isOpen: boolean) =>
    setParameters(
      (before) => {
        const after = new URLSearchParams(before);
        if (isOpen) after.set('new', '');
        else after.delete('new');
        return after;
      },
      { replace: true },
    );
  return [parameters.has('new'), set];
}

function NoResources({ kind, mayWrite }: { readonly kind: Kind; readonly mayWrite: boolean }) {
  const { one, writers } = kindTable[kind];
  if (writers === 'nobody')
    return (
      <Empty title={`No ${one}s yet`}>
        <p>They are listed here as soon as there are some.</p>
      </Empty>
    );
  return (
    <Empty title={`No ${one}s yet`}>
      {mayWrite ? (
        <>
          <p>Choose “New {one}” to create the first one, or create it from a file:</p>
          <pre>muster apply -f {kind}.yaml</pre>
        </>
      ) : (
        <p>An admin can create the first one.</p>
      )}
    </Empty>
  );
}
