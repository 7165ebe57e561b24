import type { Kind } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { resourcesQuery } from '../live/resources.ts';
import { Button } from '../parts/button.tsx';
import { OneTimeSecret } from '../parts/dialog.tsx';
import { Empty } from '../parts/page.tsx';
import { Problem } from '../parts/problem.tsx';
import { useSignedIn } from '../session/session.ts';
import type { OneTime } from './catalog-queries.ts';
import { CatalogSearch } from './catalog-search.tsx';
import { kindWords } from './kind-words.ts';
import { writeRefusal } from './permit.ts';
import { ResourceList } from './resource-list.tsx';
import { matches, useSearched } from './searched.ts';
import { NewResourceDialog } from './secret/new-resource-dialog.tsx';
import { secretWords } from './secret/secret-words.ts';

/** The resources of one kind. */
export function KindPage({ kind }: { readonly kind: Kind }) {
  const { client, caller } = useSignedIn();
  const { data, error, refetch } = useQuery({
    ...resourcesQuery(client, kind),
    // Whoever looks at the list wants to see what is there now.
    staleTime: 0,
  });
  const [searched] = useSearched();
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<OneTime | null>(null);
  const refusal = writeRefusal(caller, kind);
  const { title, one, purpose } = kindWords[kind];
  const shown = data?.filter((entry) => searched === '' || matches(entry, searched));
  return (
    <>
      <header className="catalog-head">
        <div>
          <nav className="catalog-crumbs" aria-label="Where this is">
            <Link href="/catalog">Catalog</Link>
          </nav>
          <h1>{title}</h1>
          <p>{purpose}</p>
        </div>
        {refusal === null && (
          <Button look="primary" onClick={() => setMaking(true)}>
            New {one}
          </Button>
        )}
      </header>
      {refusal !== null && <p className="catalog-note">{refusal}</p>}
      <Problem error={error}>
        <Button onClick={() => refetch()}>Try again</Button>
      </Problem>
      {data && data.length > 0 && <CatalogSearch label={`Search ${one}s`} />}
      {shown && shown.length > 0 && <ResourceList entries={shown} />}
      {data && data.length > 0 && shown?.length === 0 && (
        <p className="catalog-note">
          None of the {data.length} has “{searched}” in its name or summary.
        </p>
      )}
      {data?.length === 0 && <NoneYet kind={kind} mayWrite={refusal === null} />}
      {isMaking && (
        <NewResourceDialog
          kind={kind}
          names={data?.map(({ name }) => name) ?? []}
          onClose={() => setMaking(false)}
          onMade={(secret) => {
            setMaking(false);
            setMade(secret);
          }}
        />
      )}
      {made && (
        <OneTimeSecret
          title={`The ${one} ${made.name} is made`}
          label={secretWords(kind).label}
          secret={made.secret}
          onClose={() => setMade(null)}
        />
      )}
    </>
  );
}

function NoneYet({ kind, mayWrite }: { readonly kind: Kind; readonly mayWrite: boolean }) {
  const { one } = kindWords[kind];
  if (kind === 'change-request')
    return (
      <Empty title="No change requests yet">
        <p>They will be listed here when agents propose their branches for review.</p>
      </Empty>
    );
  return (
    <Empty title={`No ${one}s yet`}>
      {mayWrite ? (
        <>
          <p>“New {one}” makes the first. From a file, the command line does the same:</p>
          <pre>muster apply -f {kind}.yaml</pre>
        </>
      ) : (
        <p>Those that an admin makes are listed here.</p>
      )}
    </Empty>
  );
}
