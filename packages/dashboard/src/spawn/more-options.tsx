import {
  type Backend,
  backendOfModel,
  providerName,
  reasoningEfforts,
  serviceTiers,
} from '@muster/sdk/contract';
import { useContext, useMemo, useState } from 'react';
import { FleetContext } from '../live/fleet.ts';
import { ChoiceField, Field, SchemaField, SuggestionField } from '../parts/field.tsx';
import { useSignedIn } from '../session/session.ts';
import { moreFields } from './spawn-problems.ts';
import type { FormPart } from './use-spawn-form.ts';

const backends = Object.keys(reasoningEfforts) as Backend[];
const none = "persona's own";

/** What is rarely chosen. It unfolds by itself when something in it is refused. */
export function MoreOptions({ hasOwner, ...part }: FormPart & { readonly hasOwner: boolean }) {
  const { draft, set, problems } = part;
  const [isOpen, setOpen] = useState(draft.outputSchema !== '' || draft.expectedOutput !== '');
  const hasProblem = moreFields.some((field) => problems.has(field));
  return (
    <details
      className="spawn-more"
      open={isOpen || hasProblem}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>More options</summary>
      <div className="spawn-more-fields">
        <ModelSettings {...part} />
        <Field
          label="Expected output"
          hint="What the result should be like. The agent is told; nothing checks it."
          error={problems.get('expectedOutput')}
        >
          {(attributes) => (
            <textarea
              {...attributes}
              rows={2}
              value={draft.expectedOutput}
              onChange={(event) => set({ expectedOutput: event.target.value })}
            />
          )}
        </Field>
        <SchemaField
          value={draft.outputSchema}
          onChange={(outputSchema) => set({ outputSchema })}
          error={problems.get('outputSchema')}
        />
        {hasOwner && <OwnerField {...part} />}
      </div>
    </details>
  );
}

/** Which efforts and tiers there are depends on the backend, and that on the model. */
function ModelSettings({ draft, set, problems }: FormPart) {
  const backend = backendOfModel(draft.model.trim());
  const fitting = (values: Readonly<Record<Backend, readonly string[]>>) => [
    ...new Set((backend ? [backend] : backends).flatMap((one) => values[one])),
  ];
  const tiers = fitting(serviceTiers);
  return (
    <div className="field-row spawn-more-row">
      <ChoiceField
        label="Effort"
        none={none}
        value={draft.reasoningEffort}
        values={fitting(reasoningEfforts)}
        onChange={(reasoningEffort) => set({ reasoningEffort })}
        error={problems.get('reasoningEffort')}
      />
      <ChoiceField
        label="Tier"
        none={none}
        value={draft.serviceTier}
        values={tiers}
        onChange={(serviceTier) => set({ serviceTier })}
        error={problems.get('serviceTier')}
        hint={tiers.length === 0 && 'This model has no tiers.'}
      />
      <ChoiceField
        label="Fast mode"
        none={none}
        value={draft.fastMode}
        values={['on', 'off']}
        onChange={(fastMode) => set({ fastMode: fastMode as typeof draft.fastMode })}
        error={problems.get('fastMode')}
      />
    </div>
  );
}

/** An admin may start an agent for somebody else of the tenant. */
function OwnerField({ draft, set, problems }: FormPart) {
  const { caller } = useSignedIn();
  const fleet = useContext(FleetContext);
  const owners = useMemo(() => {
    const ids = Array.from(fleet?.view().agents.values() ?? [], ({ agentId }) => agentId);
    return [...new Set(ids.map((id) => `${providerName(id.ownerProvider)}/${id.account}`))].sort();
  }, [fleet]);
  return (
    <SuggestionField
      label="Owner"
      value={draft.owner}
      suggestions={owners}
      onChange={(owner) => set({ owner })}
      placeholder={`${providerName(caller.ownerProvider)}/${caller.account}`}
      hint="The account it belongs to. Empty: yours."
      error={problems.get('owner')}
    />
  );
}
