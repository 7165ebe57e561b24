import { type AgentId, agentPage, type Kind, kindTable, sealedFieldOf } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation, useSearchParams } from 'wouter';
import { Button, ViewSwitch } from '../../parts/button.tsx';
import { accountName } from '../../parts/model/owner.ts';
import { Empty } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { Age } from '../../parts/times.tsx';
import { useSignedIn } from '../../session/session.ts';
import { hasForm } from '../model/form.ts';
import { deletingOf, writeRefusal } from '../model/resource.ts';
import { DocumentView, type Named, type ResourceProps } from './document-view.tsx';
import { HistoryView } from './history-view.tsx';
import { IntegrationView } from './integration-view.tsx';
import { NotificationView } from './notification-view.tsx';
import { type Document, resourceQuery, type StoredResource } from './queries.ts';
import { type ResourceDialog, ResourceDialogs, ResourceSecret, useLeaveGuard } from './resource-dialogs.tsx';
import { ExpiryMark } from './resource-list.tsx';
import { SecretView } from './secret-view.tsx';
import { SignInView } from './sign-in-view.tsx';
import { RequestExample, TriggerView } from './trigger-view.tsx';
import { useEdit } from './use-edit.ts';

type View = 'form' | 'document' | 'connection' | 'history';
type Views = readonly (readonly [view: View, title: string])[];

const views: Views = [
  ['form', 'Form'],
  ['document', 'Text'],
  ['connection', 'Connection'],
  ['history', 'History'],
];

/** The value of a secret is not edited as a text. */
const secretViews: Views = [
  ['document', 'Value'],
  ['history', 'History'],
];

/** Whether a person last chose the form or the text. Without a choice, a new resource begins with the form. */
const preferenceKey = 'muster.catalog.view';
const prefersForm = (otherwise: boolean): boolean => {
  const chosen = localStorage.getItem(preferenceKey);
  return chosen === null ? otherwise : chosen === 'form';
};

/** The fields with addresses that others send to. */
const addressFields: Partial<Readonly<Record<Kind, string>>> = {
  integration: 'webhookUrl',
  trigger: 'url',
  'sign-in': 'redirectUri',
};

/** The address of a resource that the caller may administer, empty if nobody sends to it; undefined if it has no connection. */
function addressOf(kind: Kind, stored: StoredResource | null, refusal: string | null): string | undefined {
  if (kind === 'notification') return stored && refusal === null ? '' : undefined;
  const address = stored?.document[addressFields[kind] ?? ''];
  return refusal === null && typeof address === 'string' ? address : undefined;
}

/** How soon the page says that somebody else saved. */
const pollMs = 5_000;

/** One resource: its text and its history. At the URL of a resource that does not exist, it can be created. */
export function ResourcePage({ kind, name }: Named) {
  const { client, caller } = useSignedIn();
  const { data, error, refetch } = useQuery({
    ...resourceQuery(client, kind, name),
    refetchInterval: pollMs,
  });
  if (data === undefined)
    return error === null ? (
      <p className="page-loading">Loading …</p>
    ) : (
      <Problem error={error}>
        <Button onClick={() => refetch()}>Try again</Button>
      </Problem>
    );
  const refusal = writeRefusal(caller, kind, data?.document);
  if (data === null && refusal !== null)
    return (
      <Empty title={`No ${kindTable[kind].one} “${name}”`}>
        <p>
          <Link href={`/catalog/${kind}`}>Show all {kindTable[kind].one}s</Link>
        </p>
      </Empty>
    );
  return <Resource {...{ kind, name, refusal }} stored={data} />;
}

/** The views of a resource, and the one that the address or the person chose. */
function useView(kind: Kind, address: string | undefined, isNew: boolean) {
  const [parameters, setParameters] = useSearchParams();
  const shownViews = (sealedFieldOf(kind) ? secretViews : views).filter(
    ([view]) => (view !== 'connection' || address !== undefined) && (view !== 'form' || hasForm(kind)),
  );
  const asked = shownViews.find(([name]) => name === parameters.get('view'))?.[0];
  const view: View = asked ?? (hasForm(kind) && prefersForm(isNew) ? 'form' : 'document');
  const show = (chosen: View) => {
    if (chosen === 'form' || chosen === 'document') localStorage.setItem(preferenceKey, chosen);
    setParameters({ view: chosen });
  };
  return { shownViews, view, show };
}

function Resource({ kind, name, stored, refusal }: ResourceProps) {
  const [, navigate] = useLocation();
  const [dialog, setDialog] = useState<ResourceDialog>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const address = addressOf(kind, stored, refusal);
  const isSealed = sealedFieldOf(kind) !== undefined;
  const edit = useEdit(kind, name, stored, setSecret);
  const { shownViews, view, show } = useView(kind, address, stored === null && !edit.hasFirstText);
  const { leaveDialog, release } = useLeaveGuard(edit.draft.isDirty);
  const generation = stored?.generation ?? '0';
  const restore = (text: string) => {
    edit.restore(text);
    show('document');
  };
  const askToRestore = (text: string) => (edit.draft.isDirty ? setDialog({ restore: text }) : restore(text));
  const leave = () => {
    release();
    navigate(`/catalog/${kind}`);
  };
  return (
    <>
      <ResourceHead {...{ kind, name, stored, refusal }} onOpen={setDialog} />
      <ViewSwitch views={shownViews} view={view} onChoose={show} />
      {view === 'connection' && address !== undefined && (
        <ConnectionView {...{ kind, name, address }} document={stored?.document ?? {}} />
      )}
      {view === 'history' && (
        <HistoryView
          {...{ kind, name, generation }}
          onRestore={refusal === null && !isSealed ? askToRestore : undefined}
        />
      )}
      {isSealed ? (
        view === 'document' && (
          <SecretView {...{ kind, name, stored, refusal }} onValue={() => setDialog('value')} />
        )
      ) : (
        <DocumentView
          {...{ kind, name, stored, refusal, edit }}
          isShown={view === 'document' || view === 'form'}
          isForm={view === 'form'}
          onText={() => show('document')}
          onDiscard={() => setDialog('discard')}
          onDeleted={leave}
        />
      )}
      <ResourceDialogs
        {...{ kind, name, generation, dialog }}
        onClose={() => setDialog(null)}
        onSecret={setSecret}
        onDeleted={leave}
        onDiscard={edit.discard}
        onRestore={restore}
      />
      <NewSecret {...{ kind, name, secret, address, stored }} onClose={() => setSecret(null)} />
      {leaveDialog}
    </>
  );
}

interface NewSecretProps extends Named {
  readonly secret: string | null;
  readonly address: string | undefined;
  readonly stored: StoredResource | null;
  readonly onClose: () => void;
}

/** A new secret; that of a trigger with commands that use it. */
const NewSecret = ({ secret, address, stored, ...named }: NewSecretProps) =>
  secret !== null && (
    <ResourceSecret {...named} secret={secret}>
      {named.kind === 'trigger' && address !== undefined && (
        <RequestExample secret={secret} url={address} document={stored?.document ?? {}} />
      )}
    </ResourceSecret>
  );

/** What others send to the resource, or what it sends to others. */
function ConnectionView({
  kind,
  name,
  address,
  document,
}: Named & { readonly address: string; readonly document: Document }) {
  if (kind === 'notification') return <NotificationView name={name} />;
  if (kind === 'sign-in') return <SignInView name={name} redirectUri={address} />;
  return kind === 'trigger' ? (
    <TriggerView {...{ name, document }} url={address} />
  ) : (
    <IntegrationView name={name} webhookUrl={address} />
  );
}

interface ResourceHeadProps extends ResourceProps {
  readonly onOpen: (dialog: 'rotate' | 'delete') => void;
}

/** Name, status and actions of the resource. */
function ResourceHead({ kind, name, stored, refusal, onOpen }: ResourceHeadProps) {
  const { title, secret } = kindTable[kind];
  const isStored = stored !== null && stored.generation !== '0';
  return (
    <header className="catalog-head wrap resource-head">
      <div>
        <nav className="catalog-crumbs wrap" aria-label="Breadcrumb">
          <Link href="/catalog">Catalog</Link>
          <span aria-hidden="true">/</span>
          <Link href={`/catalog/${kind}`}>{title}</Link>
        </nav>
        <h1>{name}</h1>
        <ResourceStatus kind={kind} stored={stored} />
        {isStored && secret && <SecretFacts kind={kind} document={stored.document} />}
        {refusal !== null && <p className="resource-refusal">{refusal}</p>}
      </div>
      {isStored && refusal === null && (
        <div className="wrap">
          {secret && !secret.isSealed && (
            <Button onClick={() => onOpen('rotate')}>New {secret.label.toLowerCase()} …</Button>
          )}
          <Button look="danger" onClick={() => onOpen('delete')}>
            {deletingOf(kind).verb} …
          </Button>
        </div>
      )}
    </header>
  );
}

function ResourceStatus({ kind, stored }: { readonly kind: Kind; readonly stored: StoredResource | null }) {
  const { one, writers } = kindTable[kind];
  if (stored === null)
    return (
      <p>
        This {one} does not exist yet.{!sealedFieldOf(kind) && ' Save to create it.'}
      </p>
    );
  if (writers === 'nobody') return <RecordStatus kind={kind} document={stored.document} />;
  if (stored.generation === '0')
    return (
      <p>
        <strong>Builtin.</strong> It can’t be deleted. Save to override it.
      </p>
    );
  const { updatedAt, updatedBy, createdBy } = stored.document;
  return (
    <p>
      Generation {stored.generation}
      {typeof updatedAt === 'string' && (
        <>
          , saved <Age since={updatedAt} /> ago by {nameOf(updatedBy)}
        </>
      )}
      {createdBy !== updatedBy && <>, created by {nameOf(createdBy)}</>}
    </p>
  );
}

const nameOf = (owner: unknown): string => accountName(String(owner));

/** A change request as its host last described it. */
function RecordStatus({ kind, document }: { readonly kind: Kind; readonly document: Document }) {
  const { updatedAt, url } = document;
  return (
    <p>
      {kindTable[kind].summary({ ...document, url: '' })}
      {typeof url === 'string' && (
        <>
          {' · '}
          <a href={url} target="_blank" rel="noreferrer">
            {url}
          </a>
        </>
      )}
      {typeof updatedAt === 'string' && (
        <>
          {' · compared with its host '}
          <Age since={updatedAt} /> ago
        </>
      )}
    </p>
  );
}

function SecretFacts({ kind, document }: { readonly kind: Kind; readonly document: Document }) {
  const { keyId, agentId } = document;
  const page = pageOf(agentId);
  const summary = kindTable[kind].summary(document);
  return (
    <p>
      <ExpiryMark document={document} />
      {page ? <Link href={page}>{summary}</Link> : summary}
      {typeof keyId === 'string' && (
        <>
          {' '}
          · key id <code>{keyId}</code>
        </>
      )}
    </p>
  );
}

/** The page of the agent that a link shows, if its id is complete. */
function pageOf(agentId: unknown): string | undefined {
  const id = agentId as Partial<AgentId> | undefined;
  return id?.tenant && id.ownerProvider && id.account && id.workspace && id.agent?.length
    ? agentPage(id as AgentId)
    : undefined;
}
