import { InvalidArgumentError } from '@muster/sdk';
import type { Kind } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useLocation, useSearchParams } from 'wouter';
import { useHistoryState } from 'wouter/use-browser-location';
import { Button, ViewSwitch } from '../parts/button.tsx';
import { OneTimeSecret } from '../parts/dialog.tsx';
import { Empty } from '../parts/page.tsx';
import { Problem } from '../parts/problem.tsx';
import { useSignedIn } from '../session/session.ts';
import { resourceQuery, type StoredResource } from './catalog-queries.ts';
import { DocumentEditor } from './document-editor.tsx';
import { HistoryView } from './history-view.tsx';
import { kindWords } from './kind-words.ts';
import { useLeaveGuard } from './leave-guard.tsx';
import { writeRefusal } from './permit.ts';
import { Reconcile } from './reconcile.tsx';
import { type Asked, ResourceDialogs } from './resource-dialogs.tsx';
import { ResourceHead } from './resource-head.tsx';
import { SaveBar } from './save-bar.tsx';
import { secretWords } from './secret/secret-words.ts';
import { baseOf, useDraft } from './use-draft.ts';
import { useSave } from './use-save.ts';

const views = [
  ['document', 'Document'],
  ['history', 'History'],
] as const;

interface Named {
  readonly kind: Kind;
  readonly name: string;
}

/** One resource: its text, to read or to edit, and its history. An address without one is where it can be made. */
export function ResourcePage({ kind, name }: Named) {
  const { client, caller } = useSignedIn();
  const { data, error, refetch } = useQuery(resourceQuery(client, kind, name));
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
      <Empty title={`There is no ${kindWords[kind].one} “${name}”`}>
        <p>
          <Link href={`/catalog/${kind}`}>See which there are</Link>
        </p>
      </Empty>
    );
  return <Resource kind={kind} name={name} stored={data} refusal={refusal} />;
}

function Resource({
  kind,
  name,
  stored,
  refusal,
}: Named & { readonly stored: StoredResource | null; readonly refusal: string | null }) {
  const [, navigate] = useLocation();
  const [parameters, setParameters] = useSearchParams();
  const isHistory = parameters.get('view') === 'history';
  const started = useHistoryState<{ readonly text?: string } | null>();
  const draft = useDraft(kind, name, stored, stored === null ? started?.text : undefined);
  const [reason, setReason] = useState('');
  const [said, setSaid] = useState('');
  const [asked, setAsked] = useState<Asked>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const saving = useSave(kind, name, {
    onSaved: (now) => {
      draft.rebase(baseOf(kind, name, now));
      setReason('');
      setSaid(`Saved as generation ${now.generation}.`);
    },
    onSecret: setSecret,
  });
  const { question, release } = useLeaveGuard(draft.isDirty);
  const save = (text = draft.text, generation = draft.base.generation) => {
    setSaid('');
    saving.save({ text, generation, reason });
  };
  const bringBack = (text: string) => {
    draft.write(text);
    setSaid('The old text is in the editor. Nothing is changed until you save it.');
    setParameters({});
  };
  const leave = () => {
    release();
    navigate(`/catalog/${kind}`);
  };
  const discard = () => {
    saving.forget();
    draft.rebase(draft.base);
  };
  return (
    <>
      <ResourceHead kind={kind} name={name} stored={stored} refusal={refusal} onAsk={setAsked} />
      <ViewSwitch
        views={views}
        view={isHistory ? 'history' : 'document'}
        onChoose={(view) => setParameters(view === 'history' ? { view } : {})}
      />
      {isHistory && (
        <HistoryView
          kind={kind}
          name={name}
          generation={stored?.generation ?? '0'}
          onBringBack={
            refusal === null
              ? (text) => (draft.isDirty ? setAsked({ bringBack: text }) : bringBack(text))
              : undefined
          }
        />
      )}
      {!isHistory && saving.conflict && (
        <Reconcile
          kind={kind}
          name={name}
          draft={draft}
          conflict={saving.conflict}
          isSaving={saving.isSaving}
          onSave={save}
          onClose={saving.forget}
          onGone={leave}
        />
      )}
      <div className="resource-text" hidden={isHistory || saving.conflict !== null}>
        {draft.isOutrun && (
          <p className="catalog-note" role="status">
            Somebody saved this while you were editing. Your text is untouched; when you save, both are shown.
          </p>
        )}
        <DocumentEditor
          kind={kind}
          name={name}
          text={draft.text}
          onChange={draft.write}
          refused={saving.refusedLines(draft.text)}
          isReadOnly={refusal !== null}
        />
        {!isPlaced(saving.error) && <Problem error={saving.error} />}
        {refusal === null && (
          <SaveBar
            label={stored === null ? `Make the ${kindWords[kind].one}` : 'Save'}
            reason={reason}
            onReason={setReason}
            error={saving.error}
            said={said}
            isDirty={draft.isDirty}
            isSavable={draft.isDirty || stored === null}
            isSaving={saving.isSaving}
            onSave={() => save()}
            onDiscard={() => setAsked('discard')}
          />
        )}
      </div>
      <ResourceDialogs
        kind={kind}
        name={name}
        generation={stored?.generation ?? '0'}
        asked={asked}
        onClose={() => setAsked(null)}
        onSecret={setSecret}
        onEnded={leave}
        onDiscard={discard}
        onBringBack={bringBack}
      />
      {secret !== null && (
        <OneTimeSecret
          title={`The ${secretWords(kind).label.toLowerCase()} of ${name}`}
          label={secretWords(kind).label}
          secret={secret}
          onClose={() => setSecret(null)}
        />
      )}
      {question}
    </>
  );
}

/** Everything that is wrong is said where it is wrong. */
const isPlaced = (error: unknown): boolean =>
  error instanceof InvalidArgumentError &&
  error.fieldViolations.length > 0 &&
  error.fieldViolations.every(({ field }) => /^(payload\b|justification$)/.test(field));
