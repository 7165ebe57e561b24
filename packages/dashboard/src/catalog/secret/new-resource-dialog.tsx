import { type Kind, nameExpected, namePattern, secretFields } from '@muster/sdk/contract';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useContext, useMemo, useState } from 'react';
import { useLocation } from 'wouter';
import { FleetContext } from '../../live/fleet.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { Field } from '../../parts/field.tsx';
import { fieldProblem, Problem } from '../../parts/problem.tsx';
import { useSignedIn } from '../../session/session.ts';
import { forgetResource, type OneTime, takeSecret } from '../catalog-queries.ts';
import { isOutrun } from '../is-outrun.ts';
import { kindWords } from '../kind-words.ts';
import { ReasonField } from '../reason-field.tsx';
import { textOf } from '../text/read-text.ts';
import { agentWords, emptyDraft, secretDocument } from './secret-draft.ts';
import { SecretFields } from './secret-fields.tsx';
import './new-resource-dialog.css';

const nameForm = new RegExp(namePattern);
/** A longer list of suggestions helps nobody. */
const mostSuggestions = 500;

/** Asks for a name, and where the new resource comes with a secret for the rest; the others are written as text next. */
export function NewResourceDialog({
  kind,
  names,
  onClose,
  onMade,
}: {
  readonly kind: Kind;
  /** Those that are taken. */
  readonly names: readonly string[];
  readonly onClose: () => void;
  readonly onMade: (secret: OneTime) => void;
}) {
  const { client, caller } = useSignedIn();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const fleet = useContext(FleetContext);
  const [name, setName] = useState('');
  const [draft, setDraft] = useState(() => emptyDraft(kind, caller));
  const [reason, setReason] = useState('');
  const agents = useMemo(() => {
    const ids = Array.from(fleet?.view().agents.values() ?? [], ({ agentId }) => agentId);
    return new Map(ids.slice(0, mostSuggestions).map((id) => [agentWords(id), id]));
  }, [fleet]);
  const hasSecret = secretFields[kind] !== undefined;
  const document = () => secretDocument(kind, draft, caller, agents);

  const { mutate, reset, error, isPending } = useMutation({
    mutationFn: async () => {
      const settings = { ifGenerationMatch: '0', justification: reason };
      const { secret } = takeSecret(
        kind,
        (await client.catalog.write(kind, name, document(), settings)).document,
      );
      await forgetResource(queries, kind, name);
      // The secret goes past what queries and mutations remember.
      onMade({ kind, name, secret: secret ?? '' });
    },
  });
  const writeByHand = (text?: string) =>
    navigate(`/catalog/${kind}/${encodeURIComponent(name)}`, { state: text === undefined ? null : { text } });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (hasSecret) mutate();
    else writeByHand();
  };

  const { one } = kindWords[kind];
  const isTaken = names.includes(name) || isOutrun(error);
  const nameProblem = isTaken
    ? `There is a ${one} of this name already.`
    : name !== '' && !nameForm.test(name)
      ? `It must be ${nameExpected}.`
      : fieldProblem(error, 'ref.name');
  const isNamed = name !== '' && nameProblem === undefined;
  const isShown = error !== null && !isOutrun(error);
  return (
    <Dialog title={`New ${one}`} onClose={onClose}>
      <form className="new-resource" onSubmit={submit}>
        {isShown && <Problem error={error} />}
        <Field label="Name" hint="Letters, digits, dots, dashes and underscores." error={nameProblem}>
          {(attributes) => (
            <input
              {...attributes}
              value={name}
              onChange={(event) => {
                setName(event.target.value.trim());
                reset();
              }}
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              required
              autoFocus
            />
          )}
        </Field>
        {hasSecret && (
          <>
            <SecretFields
              kind={kind}
              agents={agents}
              draft={draft}
              error={error}
              caller={caller}
              onChange={(change) => setDraft({ ...draft, ...change })}
            />
            <ReasonField value={reason} onChange={setReason} error={error} />
            <details>
              <summary>As YAML</summary>
              <pre>{textOf(kind, name || '…', document())}</pre>
              <Button disabled={!isNamed} onClick={() => writeByHand(textOf(kind, name, document()))}>
                Go on in the editor
              </Button>
            </details>
          </>
        )}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={!isNamed || isPending}>
            {hasSecret ? (isPending ? 'Making it …' : `Make the ${one}`) : 'Write it'}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
