import type { AgentId, CatalogEntry, DocumentOf } from '@muster/sdk';
import { firstLine } from '@muster/sdk/contract';
import { useModels, useResources } from '../live/resources.ts';
import { ChoiceField, Field, SuggestionField } from '../parts/field.tsx';
import { noChoices } from './last-choices.ts';
import { pathIn } from './spawn-draft.ts';
import type { FormPart } from './use-spawn-form.ts';

/** Who it is and where it works: name, workspace, persona, model. */
export function SpawnChoices({
  draft,
  set,
  problems,
  parent,
}: FormPart & { readonly parent: AgentId | undefined }) {
  const workspaces = useResources('workspace');
  const personas = useResources('persona');
  const models = useModels();
  const workspace = workspaces.find(({ name }) => name === draft.workspace);
  const ownPersona = (parent ? undefined : workspace?.document.persona) || 'default';
  const persona = personas.find(({ name }) => name === (draft.persona || ownPersona));
  const about = firstLine(persona?.document.instructions ?? '');
  return (
    <div className="field-row">
      <NameField {...{ draft, set, problems, parent }} />
      {!parent && (
        <ChoiceField
          label="Workspace"
          none={noChoices.workspace}
          value={draft.workspace === noChoices.workspace ? '' : draft.workspace}
          values={workspaces.map(({ name }) => name).filter((name) => name !== noChoices.workspace)}
          onChange={(name) => set({ workspace: name || noChoices.workspace })}
          error={problems.get('workspace')}
          hint={workspaceHint(workspace)}
        />
      )}
      <ChoiceField
        label="Persona"
        none={`${ownPersona} (of the workspace)`}
        value={draft.persona}
        values={personas.map(({ name }) => name)}
        onChange={(persona) => set({ persona })}
        error={problems.get('persona')}
        hint={<span title={about}>{cut(about)}</span>}
      />
      <SuggestionField
        label="Model"
        value={draft.model}
        suggestions={models}
        onChange={(model) => set({ model })}
        placeholder={persona?.document.model || workspace?.document.model}
        error={problems.get('model')}
        hint={modelHint(persona, workspace)}
      />
    </div>
  );
}

function NameField({ draft, set, problems, parent }: FormPart & { readonly parent: AgentId | undefined }) {
  const path = pathIn(draft, parent).join('/');
  const workspace = parent?.workspace ?? draft.workspace;
  const hint =
    path === '' ? (
      'Letters, digits, . _ and -. Empty: one is made up.'
    ) : (
      <>
        Its address: <code>{`${workspace}:${path}`}</code>
      </>
    );
  return (
    <Field label="Name (optional)" error={problems.get('name')} hint={hint}>
      {(attributes) => (
        <input
          {...attributes}
          value={draft.name}
          onChange={(event) => set({ name: event.target.value })}
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
        />
      )}
    </Field>
  );
}

const hintLength = 64;
const cut = (text: string): string => (text.length > hintLength ? `${text.slice(0, hintLength - 1)}…` : text);

function workspaceHint(workspace: CatalogEntry<DocumentOf<'workspace'>> | undefined): string {
  if (!workspace) return '';
  const repos = workspace.document.repos ?? [];
  if (repos.length === 0) return 'No repository: an empty folder.';
  return repos.length === 1 ? 'One repository.' : `${repos.length} repositories.`;
}

/** Where the model comes from when none is typed. */
function modelHint(
  persona: CatalogEntry<DocumentOf<'persona'>> | undefined,
  workspace: CatalogEntry<DocumentOf<'workspace'>> | undefined,
): string {
  if (persona?.document.model) return `Empty: ${persona.document.model}, of the persona.`;
  if (workspace?.document.model) return `Empty: ${workspace.document.model}, of the workspace.`;
  return "Empty: the service's default.";
}
