import type { AgentStatus } from '@muster/sdk';
import { backendFacts, backendOfModel } from '@muster/sdk/contract';
import { useModels, useOwnModels, useResources } from '../../live/resources.ts';
import { Button } from '../../parts/button.tsx';
import { ChoiceField, SchemaField, SuggestionField, TextField } from '../../parts/field.tsx';
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
      <TextField
        label="Tasks to add"
        hint="One per line. Added to the checklist when the message is delivered."
        error={problems.get('tasks')}
        rows={2}
        value={draft.tasks}
        onChange={(tasks) => update({ tasks })}
      />
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
  const own = useOwnModels();
  const models = useModels().filter((model) => backendOfModel(model, own) === backend);
  const { title, reasoningEfforts, serviceTiers: tiers } = backendFacts[backend];
  const choice = (
    field: 'persona' | 'reasoningEffort' | 'serviceTier' | 'fastMode',
    label: string,
    values: readonly string[],
    current: string,
  ) => (
    <ChoiceField
      label={label}
      none={unchanged(current)}
      value={draft[field]}
      values={values}
      onChange={(value) => update({ [field]: value })}
      // The API calls the persona of a message `agent`.
      error={problems.get(field === 'persona' ? 'agent' : field)}
    />
  );
  return (
    <div className="field-row">
      {choice('persona', 'Persona', personas, status.persona)}
      <SuggestionField
        label="Model"
        value={draft.model}
        suggestions={models}
        onChange={(model) => update({ model })}
        placeholder={unchanged(status.model)}
        error={problems.get('model')}
        hint={`Models of ${title} only.`}
      />
      {choice('reasoningEffort', 'Effort', reasoningEfforts, status.reasoningEffort)}
      {tiers.length > 0 && choice('serviceTier', 'Tier', tiers, status.serviceTier)}
      {choice('fastMode', 'Fast mode', ['on', 'off'], status.fastMode ? 'on' : 'off')}
    </div>
  );
}

/** A scheduled message can't interrupt the current turn, so one option disables the other. */
function DeliveryOptions({ draft, update, problems }: OptionProps) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return (
    <div className="composer-delivery wrap">
      <TextField
        label="Deliver at"
        hint={
          draft.isPreempting
            ? 'Not available when interrupting the turn.'
            : `Local time, ${zone}. Leave empty to deliver as soon as possible.`
        }
        error={problems.get('deliverAt')}
        type="datetime-local"
        value={draft.deliverAt}
        disabled={draft.isPreempting}
        onChange={(deliverAt) => update({ deliverAt })}
      />
      <fieldset className="composer-times wrap">
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
          <small className="secondary">
            This message runs next. Queued messages are discarded, scheduled ones stay. A turn that is still
            starting is not interrupted.
          </small>
          {problems.has('preempt') && <small className="field-error">{problems.get('preempt')}</small>}
        </span>
      </label>
    </div>
  );
}
