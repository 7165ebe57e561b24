import type { AgentStatus } from '@muster/sdk';
import { backendNames, backendOfModel, reasoningEfforts, serviceTiers } from '@muster/sdk/contract';
import { useModels, useResources } from '../../live/resources.ts';
import { Button } from '../../parts/button.tsx';
import { ChoiceField, Field, SchemaField, SuggestionField } from '../../parts/field.tsx';
import { type Draft, localMinute, quickTimes } from '../model/message-draft.ts';

interface OptionProps {
  readonly draft: Draft;
  readonly update: (changed: Partial<Draft>) => void;
  readonly problems: ReadonlyMap<string, string>;
}

/** Delivery of the message, and settings that hold from its turn on. */
export function ComposerOptions({ status, ...props }: OptionProps & { readonly status: AgentStatus }) {
  const { draft, update, problems } = props;
  return (
    <>
      <DeliveryOptions {...props} />
      <SettingOptions {...props} status={status} />
      <Field
        label="Tasks to add"
        hint="One per line. Added to the checklist when the message is delivered."
        error={problems.get('tasks')}
      >
        {(attributes) => (
          <textarea
            {...attributes}
            rows={2}
            value={draft.tasks}
            onChange={(event) => update({ tasks: event.target.value })}
          />
        )}
      </Field>
      <SchemaField
        value={draft.outputSchema}
        onChange={(outputSchema) => update({ outputSchema })}
        error={problems.get('outputSchema')}
      />
    </>
  );
}

const unchanged = (value: string): string => (value === '' ? 'unchanged' : `unchanged: ${value}`);

function SettingOptions({ status, draft, update, problems }: OptionProps & { readonly status: AgentStatus }) {
  const { backend } = status;
  const personas = useResources('persona').map(({ name }) => name);
  const models = useModels().filter((model) => backendOfModel(model) === backend);
  const tiers = serviceTiers[backend];
  return (
    <div className="field-row">
      <ChoiceField
        label="Persona"
        none={unchanged(status.persona)}
        value={draft.persona}
        values={personas}
        onChange={(persona) => update({ persona })}
        error={problems.get('agent')}
      />
      <SuggestionField
        label="Model"
        value={draft.model}
        suggestions={models}
        onChange={(model) => update({ model })}
        placeholder={unchanged(status.model)}
        error={problems.get('model')}
        hint={`Models of ${backendNames[backend]} only.`}
      />
      <ChoiceField
        label="Effort"
        none={unchanged(status.reasoningEffort)}
        value={draft.reasoningEffort}
        values={reasoningEfforts[backend]}
        onChange={(reasoningEffort) => update({ reasoningEffort })}
        error={problems.get('reasoningEffort')}
      />
      {tiers.length > 0 && (
        <ChoiceField
          label="Tier"
          none={unchanged(status.serviceTier)}
          value={draft.serviceTier}
          values={tiers}
          onChange={(serviceTier) => update({ serviceTier })}
          error={problems.get('serviceTier')}
        />
      )}
      <ChoiceField
        label="Fast mode"
        none={unchanged(status.fastMode ? 'on' : 'off')}
        value={draft.fastMode}
        values={['on', 'off']}
        onChange={(fastMode) => update({ fastMode: fastMode as Draft['fastMode'] })}
        error={problems.get('fastMode')}
      />
    </div>
  );
}

/** A deferred message can't interrupt the current turn, so one option disables the other. */
function DeliveryOptions({ draft, update, problems }: OptionProps) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return (
    <div className="composer-delivery">
      <Field
        label="Deliver at"
        hint={
          draft.isPreempting
            ? 'Not available when interrupting the turn.'
            : `Local time, ${zone}. Leave empty to deliver as soon as possible.`
        }
        error={problems.get('deliverAt')}
      >
        {(attributes) => (
          <input
            {...attributes}
            type="datetime-local"
            value={draft.deliverAt}
            disabled={draft.isPreempting}
            onChange={(event) => update({ deliverAt: event.target.value })}
          />
        )}
      </Field>
      <fieldset className="composer-times">
        <legend className="visually-hidden">Common choices</legend>
        {quickTimes.map(([label, timeFrom]) => (
          <Button
            key={label}
            disabled={draft.isPreempting}
            onClick={() => update({ deliverAt: localMinute(timeFrom(new Date())) })}
          >
            {label}
          </Button>
        ))}
        {draft.deliverAt !== '' && (
          <Button look="quiet" onClick={() => update({ deliverAt: '' })}>
            As soon as possible
          </Button>
        )}
      </fieldset>
      <label className="composer-preempt">
        <input
          type="checkbox"
          checked={draft.isPreempting}
          disabled={draft.deliverAt !== ''}
          onChange={(event) => update({ isPreempting: event.target.checked })}
        />
        <span>
          Interrupt the current turn and clear the queue
          <small>
            This message runs next. Queued messages are discarded, deferred ones stay. A turn that is still
            starting is not interrupted.
          </small>
          {problems.has('preempt') && <small className="field-error">{problems.get('preempt')}</small>}
        </span>
      </label>
    </div>
  );
}
