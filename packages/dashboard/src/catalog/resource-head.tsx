import { type AgentId, agentPage, type Kind, secretFields } from '@muster/sdk/contract';
import { Link } from 'wouter';
import { Button } from '../parts/button.tsx';
import { Age } from '../parts/times.tsx';
import type { Document, StoredResource } from './catalog-queries.ts';
import { kindWords } from './kind-words.ts';
import { ExpiryMark } from './resource-list.tsx';
import { secretWords } from './secret/secret-words.ts';
import { summaryOf } from './summary.ts';
import './resource-head.css';

/** Which resource it is, since when and by whom, and what can be done to the whole of it. */
export function ResourceHead({
  kind,
  name,
  stored,
  refusal,
  onAsk,
}: {
  readonly kind: Kind;
  readonly name: string;
  readonly stored: StoredResource | null;
  /** Why the caller may not change it; null when it may. */
  readonly refusal: string | null;
  readonly onAsk: (asked: 'rotate' | 'end') => void;
}) {
  const { title } = kindWords[kind];
  const { label, end } = secretWords(kind);
  const isStored = stored !== null && stored.generation !== '0';
  return (
    <header className="catalog-head resource-head">
      <div>
        <nav className="catalog-crumbs" aria-label="Where this is">
          <Link href="/catalog">Catalog</Link>
          <span aria-hidden="true">/</span>
          <Link href={`/catalog/${kind}`}>{title}</Link>
        </nav>
        <h1>{name}</h1>
        <Standing kind={kind} stored={stored} />
        {isStored && secretFields[kind] && <SecretFacts kind={kind} document={stored.document} />}
        {refusal !== null && <p className="resource-refusal">{refusal}</p>}
      </div>
      {isStored && refusal === null && (
        <div className="resource-actions">
          {secretFields[kind] && <Button onClick={() => onAsk('rotate')}>New {label.toLowerCase()} …</Button>}
          <Button look="danger" onClick={() => onAsk('end')}>
            {end} …
          </Button>
        </div>
      )}
    </header>
  );
}

function Standing({ kind, stored }: { readonly kind: Kind; readonly stored: StoredResource | null }) {
  const { one } = kindWords[kind];
  if (stored === null) return <p>There is no {one} of this name yet. Saving makes it.</p>;
  if (stored.generation === '0')
    return (
      <p>
        <strong>Builtin.</strong> It can’t be deleted. Saving makes a stored one that shadows it.
      </p>
    );
  const { updatedAt, updatedBy, createdBy } = stored.document;
  return (
    <p>
      Generation {stored.generation}
      {typeof updatedAt === 'string' && (
        <>
          , saved <Age since={updatedAt} /> ago by {String(updatedBy)}
        </>
      )}
      {createdBy !== updatedBy && <>, made by {String(createdBy)}</>}
    </p>
  );
}

function SecretFacts({ kind, document }: { readonly kind: Kind; readonly document: Document }) {
  const { keyId, agentId } = document;
  const page = kind === 'share-link' ? pageOf(agentId) : undefined;
  return (
    <p>
      <ExpiryMark document={document} />
      {page ? <Link href={page}>{summaryOf(kind, document)}</Link> : summaryOf(kind, document)}
      {typeof keyId === 'string' && (
        <>
          {' '}
          · key id <code>{keyId}</code>
        </>
      )}
    </p>
  );
}

/** The page of the agent that a link shows, if it is named wholly. */
function pageOf(agentId: unknown): string | undefined {
  const id = agentId as Partial<AgentId> | undefined;
  return id?.tenant && id.ownerProvider && id.account && id.workspace && id.agent?.length
    ? agentPage(id as AgentId)
    : undefined;
}
