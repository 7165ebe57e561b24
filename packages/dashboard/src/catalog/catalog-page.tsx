import { kindOf } from '@muster/sdk/contract';
import { Link, useParams } from 'wouter';
import { Empty, useTitle } from '../parts/page.tsx';
import { CatalogOverview } from './catalog-overview.tsx';
import { KindNav } from './kind-nav.tsx';
import { KindPage } from './kind-page.tsx';
import { kindWords } from './kind-words.ts';
import { ResourcePage } from './resource-page.tsx';
import './catalog-page.css';

/** The catalog: its kinds, the resources of one, or one resource, by the address. */
export function CatalogPage() {
  const { kind: kindName, name } = useParams<{ kind?: string; name?: string }>();
  const kind = kindName === undefined ? undefined : kindOf(kindName);
  const title = name ?? (kind ? kindWords[kind].title : 'Catalog');
  useTitle(`${title} · Muster`);

  if (kindName !== undefined && !kind)
    return (
      <Empty title={`There is no kind “${kindName}”`}>
        <p>
          <Link href="/catalog">See which kinds there are</Link>
        </p>
      </Empty>
    );
  return (
    <div className="catalog-page" data-overview={kind === undefined}>
      {kind && <KindNav current={kind} />}
      <div className="catalog-content">
        {kind === undefined && <CatalogOverview />}
        {kind !== undefined && name === undefined && <KindPage key={kind} kind={kind} />}
        {kind !== undefined && name !== undefined && (
          <ResourcePage key={`${kind}/${name}`} kind={kind} name={name} />
        )}
      </div>
    </div>
  );
}
