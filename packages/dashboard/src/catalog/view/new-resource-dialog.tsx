import type { AgentId, Caller } from '@muster/sdk';
import { type Kind, nameExpected, namePattern, sealedFields, secretFields } from '@muster/sdk/contract';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useContext, useMemo, useState } from 'react';
import { useLocation } from 'wouter';
import { FleetContext } from '../../live/fleet.ts';
import { useResources } from '../../live/resources.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { ExpiryField, SelectField, SuggestionField, TextField } from '../../parts/field.tsx';
import { fieldProblem, Problem } from '../../parts/problem.tsx';
import { useSignedIn } from '../../session/session.ts';
import { textOf } from '../model/document-text.ts';
import { kindTexts } from '../model/kinds.ts';
import { isGenerationConflict } from '../model/resource.ts';
import {
  agentText,
  emptyDraft,
  givableRoles,
  type SecretDraft,
  secretDocument,
} from '../model/secret-draft.ts';
import { type CreatedSecret, invalidateResource, takeSecret } from './queries.ts';
import { ReasonField, ValueField } from './resource-dialogs.tsx';

const nameForm = new RegExp(namePattern);
const maxSuggestions = 500;

interface NewResourceDialogProps {
  readonly kind: Kind;
  /** The existing names. */
  readonly names: readonly string[];
  readonly onClose: () => void;
  readonly onCreated: (secret: CreatedSecret) => void;
}

/** A form for resources that come with a secret or contain one; for other kinds it asks for the name and opens the editor. */
export function NewResourceDialog({ kind, names, onClose, onCreated }: NewResourceDialogProps) {
  const { client, caller } = useSignedIn();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const fleet = useContext(FleetContext);
  const [name, setName] = useState('');
  const [draft, setDraft] = useState(() => emptyDraft(kind, caller));
  const [reason, setReason] = useState('');
  const agents = useMemo(() => {
    const ids = Array.from(fleet?.view().agents.values() ?? [], ({ agentId }) => agentId);
    return new Map(ids.slice(0, maxSuggestions).map((id) => [agentText(id), id]));
  }, [fleet]);
  const isSealed = sealedFields[kind] !== undefined;
  const hasForm = isSealed || secretFields[kind] !== undefined;
  const document = () => secretDocument(kind, draft, caller, agents);

  const { mutate, reset, error, isPending } = useMutation({
    mutationFn: async () => {
      const settings = { ifGenerationMatch: '0', justification: reason };
      const { secret } = takeSecret(
        kind,
        (await client.catalog.write(kind, name, document(), settings)).document,
      );
      await invalidateResource(queries, kind, name);
      if (isSealed) return navigate(`/catalog/${kind}/${encodeURIComponent(name)}`);
      // The secret must not get into the cache of queries and mutations.
      onCreated({ kind, name, secret: secret ?? '' });
    },
  });
  const openEditor = (text?: string) =>
    navigate(`/catalog/${kind}/${encodeURIComponent(name)}`, { state: text === undefined ? null : { text } });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (hasForm) mutate();
    else openEditor();
  };

  const { one } = kindTexts[kind];
  const isTaken = names.includes(name) || isGenerationConflict(error);
  const nameProblem = isTaken
    ? `A ${one} with this name exists.`
    : name !== '' && !nameForm.test(name)
      ? `The name must be ${nameExpected}.`
      : fieldProblem(error, 'ref.name');
  const isNamed = name !== '' && nameProblem === undefined;
  const isShown = error !== null && !isGenerationConflict(error);
  return (
    <Dialog title={`New ${one}`} onClose={onClose}>
      <form className="new-resource stack" onSubmit={submit}>
        {isShown && <Problem error={error} />}
        <TextField
          label="Name"
          hint="Letters, digits, dots, dashes and underscores."
          error={nameProblem}
          value={name}
          onChange={(text) => {
            setName(text.trim());
            reset();
          }}
          isCode
          required
          autoFocus
        />
        {hasForm && (
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
            {!isSealed && (
              <details>
                <summary>As YAML</summary>
                <pre>{textOf(kind, name || '…', document())}</pre>
                <Button disabled={!isNamed} onClick={() => openEditor(textOf(kind, name, document()))}>
                  Continue in editor
                </Button>
              </details>
            )}
          </>
        )}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={!isNamed || isPending}>
            {hasForm ? (isPending ? 'Creating …' : `Create ${one}`) : 'Open editor'}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

interface FieldsProps {
  readonly kind: Kind;
  readonly agents: ReadonlyMap<string, AgentId>;
  readonly draft: SecretDraft;
  readonly onChange: (change: Partial<SecretDraft>) => void;
  readonly error: unknown;
  readonly caller: Caller;
}

/** The fields of one kind. */
function SecretFields({ kind, agents, draft, onChange, error, caller }: FieldsProps) {
  const field = (name: 'account' | 'agent' | 'pool' | 'role' | 'type' | 'value') => ({
    value: draft[name],
    onChange: (value: string) => onChange({ [name]: value }),
    error: fieldProblem(error, `payload.${name}`),
  });
  const expiry = (
    <ExpiryField
      value={draft.expiry}
      error={fieldProblem(error, 'payload.expiresAt')}
      onChange={(value) => onChange({ expiry: value })}
    />
  );
  const pools = useResources('pool');
  const isMember = caller.role === 'member';
  switch (kind) {
    case 'token':
      return (
        <>
          <div className="field-row">
            <SelectField
              label="Role"
              hint="Not higher than your own role."
              options={givableRoles(caller).map((role) => [role, role])}
              {...field('role')}
            />
            <TextField
              label="Account"
              hint={isMember ? 'Members create tokens for their own account.' : 'The owner of the key.'}
              {...field('account')}
              readOnly={isMember}
              isCode
              required
            />
          </div>
          {draft.role === 'runner' && (
            <SuggestionField
              label="Pool"
              hint="The runner takes runs of this pool."
              suggestions={pools.map(({ name }) => name)}
              {...field('pool')}
            />
          )}
          {expiry}
        </>
      );
    case 'share-link':
      return (
        <>
          <SuggestionField
            label="Agent"
            hint="The agent that the link shows. Choose one or enter its path."
            suggestions={[...agents.keys()]}
            {...field('agent')}
            error={fieldProblem(error, 'payload.agentId') ?? fieldProblem(error, 'payload.agentId.agent')}
          />
          {expiry}
        </>
      );
    case 'integration':
      return (
        <TextField
          label="Type"
          hint="github, gitlab or forgejo, which covers Gitea."
          isCode
          {...field('type')}
        />
      );
    case 'secret':
      return <ValueField {...field('value')} />;
    default:
      return null;
  }
}
