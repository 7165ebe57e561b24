import type { AgentId } from '@muster/sdk';
import { type Kind, kindTable, nameExpected, namePattern } from '@muster/sdk/contract';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useContext, useMemo, useState } from 'react';
import { useLocation } from 'wouter';
import { FleetContext } from '../../live/fleet.ts';
import { resourcesQuery } from '../../live/resources.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { ExpiryField, SelectField, SuggestionField, TextField } from '../../parts/field.tsx';
import { fieldProblem, Problem } from '../../parts/problem.tsx';
import { ReasonField } from '../../session/reason-field.tsx';
import { useClient, useSignedIn } from '../../session/session.ts';
import { textOf } from '../model/document-text.ts';
import {
  agentText,
  documentOf,
  emptyResource,
  inputOf,
  type NewResource,
  shownFields,
} from '../model/new-resource.ts';
import { isGenerationConflict } from '../model/resource.ts';
import { AccountField } from './account-field.tsx';
import { type CreatedSecret, invalidateResource, takeSecret } from './queries.ts';
import { ValueField } from './resource-dialogs.tsx';

const nameForm = new RegExp(namePattern);
const maxSuggestions = 500;

interface NewResourceDialogProps {
  readonly kind: Kind;
  /** The existing names. */
  readonly names: readonly string[];
  readonly onClose: () => void;
  readonly onCreated: (secret: CreatedSecret) => void;
}

/** The form of the kind, or for kinds without one only the name, and then the editor. */
export function NewResourceDialog(props: NewResourceDialogProps) {
  const { kind, names, onClose } = props;
  const [, navigate] = useLocation();
  const resource = useNewResource(props);
  const { name, error, isPending } = resource;
  const { one, form } = kindTable[kind];
  const hasForm = form !== undefined;
  const openEditor = (text?: string) =>
    navigate(`/catalog/${kind}/${encodeURIComponent(name)}`, { state: text === undefined ? null : { text } });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (hasForm) resource.create();
    else openEditor();
  };

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
            resource.setName(text.trim());
            resource.reset();
          }}
          isCode
          required
          autoFocus
        />
        {hasForm && <FormFields {...{ kind, resource, isNamed }} onEdit={openEditor} />}
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

const isSealed = (kind: Kind): boolean => kindTable[kind].secret?.isSealed ?? false;

/** What is filled in, and its creation. */
function useNewResource({ kind, onCreated }: NewResourceDialogProps) {
  const { client, caller } = useSignedIn();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const fleet = useContext(FleetContext);
  const [name, setName] = useState('');
  const [filled, setFilled] = useState(() => emptyResource(kind));
  const [reason, setReason] = useState('');
  const agents = useMemo(() => {
    const ids = Array.from(fleet?.view().agents.values() ?? [], ({ agentId }) => agentId);
    return new Map(ids.slice(0, maxSuggestions).map((id) => [agentText(id), id]));
  }, [fleet]);
  const document = () => documentOf(kind, filled, caller, agents);
  const { mutate, reset, error, isPending } = useMutation({
    mutationFn: async () => {
      const settings = { ifGenerationMatch: '0', justification: reason };
      const { secret } = takeSecret(
        kind,
        (await client.catalog.write(kind, name, document(), settings)).document,
      );
      await invalidateResource(queries, kind, name);
      if (isSealed(kind)) return navigate(`/catalog/${kind}/${encodeURIComponent(name)}`);
      // The secret must not get into the cache of queries and mutations.
      onCreated({ kind, name, secret: secret ?? '' });
    },
  });
  const draft = { name, setName, filled, setFilled, reason, setReason };
  return { ...draft, agents, document, create: mutate, reset, error, isPending };
}

interface FormFieldsProps {
  readonly kind: Kind;
  readonly resource: ReturnType<typeof useNewResource>;
  readonly isNamed: boolean;
  readonly onEdit: (text: string) => void;
}

function FormFields({ kind, resource, isNamed, onEdit }: FormFieldsProps) {
  const { name, filled, setFilled, reason, setReason, agents, document, error } = resource;
  return (
    <>
      {shownFields(kind, filled).map(({ field }) => (
        <NewField key={field} {...{ kind, name, field, agents, filled, error }} onChange={setFilled} />
      ))}
      <ReasonField value={reason} onChange={setReason} error={error} />
      {!isSealed(kind) && (
        <details>
          <summary>As YAML</summary>
          <pre>{textOf(kind, name || '…', document())}</pre>
          <Button disabled={!isNamed} onClick={() => onEdit(textOf(kind, name, document()))}>
            Continue in editor
          </Button>
        </details>
      )}
    </>
  );
}

interface NewFieldProps {
  readonly kind: Kind;
  readonly name: string;
  readonly field: string;
  readonly agents: ReadonlyMap<string, AgentId>;
  readonly filled: NewResource;
  readonly onChange: (filled: NewResource) => void;
  readonly error: unknown;
}

function NewField({ kind, name, field, agents, filled, onChange, error }: NewFieldProps) {
  const { caller } = useSignedIn();
  const { type, label, hint, options, kind: named } = inputOf(kind, field, caller);
  const resources = useQuery({ ...resourcesQuery(useClient(), named), enabled: type === 'resource' });
  const problem = fieldProblem(error, `payload.${field}`);
  if (type === 'expiry')
    return (
      <ExpiryField
        value={filled.expiry}
        error={problem}
        onChange={(expiry) => onChange({ ...filled, expiry })}
      />
    );
  const input = {
    label,
    hint,
    error: problem,
    value: filled.texts[field] ?? '',
    onChange: (text: string) => onChange({ ...filled, texts: { ...filled.texts, [field]: text } }),
  };
  switch (type) {
    case 'value':
      return <ValueField {...input} />;
    case 'choice':
      return <SelectField {...input} options={options.map((option) => [option, option])} />;
    case 'resource':
      return <SuggestionField {...input} suggestions={resources.data?.map(({ name }) => name) ?? []} />;
    case 'agent':
      return (
        <SuggestionField
          {...input}
          error={problem ?? fieldProblem(error, `payload.${field}.agent`)}
          suggestions={[...agents.keys()]}
        />
      );
    case 'text':
      return <TextField {...input} isCode required />;
    case 'account':
      return <AccountField {...input} name={name} />;
  }
}
