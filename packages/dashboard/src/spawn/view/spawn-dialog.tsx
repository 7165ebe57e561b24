import type { AgentId, CatalogEntry, DocumentOf } from '@muster/sdk';
import {
  backendFacts,
  backendOfModel,
  backends,
  firstLine,
  isRehearsalModel,
  pathOf,
  providerName,
} from '@muster/sdk/contract';
import { type ClipboardEvent, type KeyboardEvent, useContext, useEffect, useMemo, useState } from 'react';
import { FleetContext } from '../../live/fleet.ts';
import { useModels, useOwnModels, useResources } from '../../live/resources.ts';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { DraftImages, ImageButton } from '../../parts/draft-images.tsx';
import { ChoiceField, SchemaField, SuggestionField, TextField } from '../../parts/field.tsx';
import { addedImages } from '../../parts/model/images.ts';
import { plural } from '../../parts/model/text.ts';
import { Problem } from '../../parts/problem.tsx';
import { useSignedIn } from '../../session/session.ts';
import {
  areModelsRehearsed,
  choicesText,
  type LastChoices,
  moreFields,
  noChoices,
  pathIn,
  type SpawnPreset,
} from '../model/spawn-draft.ts';
import { maySpawn } from '../open-spawn.ts';
import { ModelField } from './model-field.tsx';
import { TasksField } from './tasks-field.tsx';
import { type FormPart, useSpawnForm } from './use-spawn-form.ts';
import '../spawn.css';

export function SpawnDialog({
  preset,
  onClose,
}: {
  readonly preset: SpawnPreset;
  readonly onClose: () => void;
}) {
  const { caller } = useSignedIn();
  // Closes when the session changes: another person did not open it.
  useEffect(() => onClose, [onClose]);
  const title = preset.parent ? `New child of ${pathOf(preset.parent)}` : 'New agent';
  return (
    <Dialog title={title} onClose={onClose}>
      {maySpawn(caller) ? (
        <SpawnForm preset={preset} onClose={onClose} />
      ) : (
        <p>Read-only access. To start agents, ask an admin for a key with the member role.</p>
      )}
    </Dialog>
  );
}

function SpawnForm({ preset, onClose }: { readonly preset: SpawnPreset; readonly onClose: () => void }) {
  const { caller } = useSignedIn();
  const { form, error, isPending, submit, last, forgetLast, ...part } = useSpawnForm(preset, onClose);
  const { draft, field } = part;
  const images = useImages(part);
  const submitByKey = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    submit();
  };
  return (
    <form
      ref={form}
      className="spawn-form stack"
      onKeyDown={submitByKey}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      noValidate
    >
      <LastChoicesNote last={last} draft={draft} onReset={forgetLast} />
      <TextField
        label="Task description"
        hint={
          <span className="spawn-keys">
            <kbd>Ctrl</kbd> <kbd>Enter</kbd> starts the agent.
          </span>
        }
        rows={5}
        {...field('description')}
        placeholder="Fix the flaky login test and explain the cause."
        data-autofocus
        onPaste={images.onPaste}
      />
      <div className="spawn-images wrap">
        <ImageButton onAdd={images.add} />
        <DraftImages images={draft.images} onChange={(next) => part.set({ images: next })} />
        {images.problem !== '' && (
          <p className="field-error" role="status">
            {images.problem}
          </p>
        )}
      </div>
      <SpawnChoices {...part} parent={preset.parent} />
      <TasksField {...part} />
      <MoreOptions {...part} hasOwner={!preset.parent && caller.role !== 'member'} />
      <RehearsalHint {...part} />
      <Problem error={error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button type="submit" look="primary" disabled={isPending}>
          {isPending ? 'Starting …' : 'Start agent'}
        </Button>
      </DialogActions>
    </form>
  );
}

function useImages({ draft, set }: FormPart) {
  const [problem, setProblem] = useState('');
  const add = (files: readonly File[]) => {
    const added = addedImages(draft.images, files);
    if (added.images.length > 0) set({ images: [...draft.images, ...added.images] });
    setProblem(added.problem);
  };
  const onPaste = (event: ClipboardEvent) => {
    const files = [...event.clipboardData.files];
    if (files.length === 0) return;
    event.preventDefault();
    add(files);
  };
  return { problem, add, onPaste };
}

interface LastChoicesNoteProps {
  readonly last: LastChoices;
  readonly draft: LastChoices;
  readonly onReset: () => void;
}

/** Why the form does not start empty. */
function LastChoicesNote({ last, draft, onReset }: LastChoicesNoteProps) {
  const text = choicesText(last);
  if (text === '' || text !== choicesText(draft)) return null;
  return (
    <p className="spawn-last-choices secondary">
      <span>Same as last time: {text}.</span>
      <Button look="quiet" onClick={onReset}>
        Reset
      </Button>
    </p>
  );
}

/** Name, workspace, persona and model. */
function SpawnChoices({ parent, ...part }: FormPart & { readonly parent: AgentId | undefined }) {
  const { draft, set, field } = part;
  const workspaces = useResources('workspace');
  const personas = useResources('persona');
  const models = [
    ...new Set([...backends.flatMap((backend) => backendFacts[backend].shortNames), ...useModels()]),
  ].sort();
  const workspace = workspaces.find(({ name }) => name === draft.workspace);
  const ownPersona = (parent ? undefined : workspace?.document.persona) || 'default';
  const persona = personas.find(({ name }) => name === (draft.persona || ownPersona));
  const about = firstLine(persona?.document.instructions ?? '');
  return (
    <div className="field-row">
      <NameField {...part} parent={parent} />
      {!parent && (
        <ChoiceField
          label="Workspace"
          none={noChoices.workspace}
          values={workspaces.map(({ name }) => name).filter((name) => name !== noChoices.workspace)}
          {...field('workspace')}
          value={draft.workspace === noChoices.workspace ? '' : draft.workspace}
          onChange={(name) => set({ workspace: name || noChoices.workspace })}
          hint={workspaceHint(workspace)}
        />
      )}
      <ChoiceField
        label="Persona"
        none={`${ownPersona} (workspace default)`}
        values={personas.map(({ name }) => name)}
        {...field('persona')}
        hint={<span title={about}>{cut(about)}</span>}
      />
      <ModelField
        models={models}
        {...field('model')}
        placeholder={persona?.document.model || workspace?.document.model || 'Default of the service'}
        hint={modelHint(persona, workspace)}
      />
    </div>
  );
}

function NameField({ draft, field, parent }: FormPart & { readonly parent: AgentId | undefined }) {
  const path = pathIn(draft, parent).join('/');
  const workspace = parent?.workspace ?? draft.workspace;
  const hint =
    path === '' ? (
      'Leave empty to generate a name.'
    ) : (
      <>
        Path: <code>{`${workspace}:${path}`}</code>
      </>
    );
  return <TextField label="Name (optional)" hint={hint} {...field('name')} isCode />;
}

const hintLength = 64;
const cut = (text: string): string => (text.length > hintLength ? `${text.slice(0, hintLength - 1)}…` : text);

function workspaceHint(workspace: CatalogEntry<DocumentOf<'workspace'>> | undefined): string {
  if (!workspace) return '';
  const repos = workspace.document.repos ?? [];
  return repos.length === 0 ? 'Empty folder.' : `${plural(repos.length, 'repository', 'repositories')}.`;
}

function modelHint(
  persona: CatalogEntry<DocumentOf<'persona'>> | undefined,
  workspace: CatalogEntry<DocumentOf<'workspace'>> | undefined,
): string {
  if (persona?.document.model) return `Leave empty for ${persona.document.model}, the persona’s model.`;
  if (workspace?.document.model) return `Leave empty for ${workspace.document.model}, the workspace’s model.`;
  return 'Leave empty for the default model.';
}

const personaDefault = 'Persona default';

/** Opens when one of its fields has a problem. */
function MoreOptions({ hasOwner, ...part }: FormPart & { readonly hasOwner: boolean }) {
  const { draft, field, problems } = part;
  const [isOpen, setOpen] = useState(draft.outputSchema !== '' || draft.expectedOutput !== '');
  const hasProblem = moreFields.some((name) => problems.has(name));
  return (
    <details
      className="spawn-more"
      open={isOpen || hasProblem}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>More options</summary>
      <div className="spawn-more-fields stack">
        <ModelSettings {...part} />
        <TextField
          label="Expected output"
          hint="Describes the result for the agent. It is not validated."
          rows={2}
          {...field('expectedOutput')}
        />
        <SchemaField {...field('outputSchema')} />
        <TextField
          label="Labels"
          hint="Such as team=web, area=checkout. You can filter agents by them."
          {...field('labels')}
        />
        <TextField
          label="Budget in USD"
          hint="The most that the agent and all agents below it may spend. Leave empty for no limit."
          inputMode="decimal"
          {...field('budgetUsd')}
          isCode
        />
        {hasOwner && <OwnerField {...part} />}
      </div>
    </details>
  );
}

/** The efforts and tiers depend on the backend, and the backend on the model. */
function ModelSettings({ draft, field }: FormPart) {
  const backend = backendOfModel(draft.model.trim(), useOwnModels());
  const available = (setting: 'reasoningEfforts' | 'serviceTiers') => [
    ...new Set((backend ? [backend] : backends).flatMap((one) => backendFacts[one][setting])),
  ];
  const tiers = available('serviceTiers');
  return (
    <div className="field-row spawn-more-row">
      <ChoiceField
        label="Effort"
        none={personaDefault}
        values={available('reasoningEfforts')}
        {...field('reasoningEffort')}
      />
      <ChoiceField
        label="Tier"
        none={personaDefault}
        values={tiers}
        {...field('serviceTier')}
        hint={tiers.length === 0 && 'This model has no tiers.'}
      />
      <ChoiceField label="Fast mode" none={personaDefault} values={['on', 'off']} {...field('fastMode')} />
    </div>
  );
}

/** Admins may start agents for other accounts of the tenant. */
function OwnerField({ field }: FormPart) {
  const { caller } = useSignedIn();
  const fleet = useContext(FleetContext);
  const owners = useMemo(() => {
    const ids = Array.from(fleet?.view().agents.values() ?? [], ({ agentId }) => agentId);
    return [...new Set(ids.map((id) => `${providerName(id.ownerProvider)}/${id.account}`))].sort();
  }, [fleet]);
  return (
    <SuggestionField
      label="Owner"
      suggestions={owners}
      {...field('owner')}
      placeholder={`${providerName(caller.ownerProvider)}/${caller.account}`}
      hint="Leave empty for your account."
    />
  );
}

const example = `List the files, then ask how to continue.
!say Listing the files.
!run ls -la
!task add Wait for an answer
!usage 1200 300 150 0.02
!ask Should I continue?`;

/** Explains the rehearsal, if the agent may run without a model. */
function RehearsalHint({ draft, set }: FormPart) {
  const fleet = useContext(FleetContext);
  const [areRehearsed] = useState(() => areModelsRehearsed(fleet?.view().agents.values() ?? []));
  const isRehearsed = isRehearsalModel(draft.model.trim()) || areRehearsed;
  if (isRehearsed === false) return null;
  const insertExample = () =>
    set({ description: [draft.description.trimEnd(), example].filter(Boolean).join('\n') });
  return (
    <div className="spawn-rehearsal secondary">
      <p>
        {isRehearsed
          ? 'This agent is a rehearsal: it uses no model and costs nothing.'
          : 'Without a key of a model provider, agents are rehearsals: they use no model and cost nothing.'}{' '}
        It does what you write, line by line: <code>!say</code> <code>!run</code> <code>!task add</code>{' '}
        <code>!ask</code> <code>!spawn</code> <code>!finish</code>.
      </p>
      <Button look="quiet" onClick={insertExample} disabled={draft.description.includes(example)}>
        Insert example
      </Button>
    </div>
  );
}
