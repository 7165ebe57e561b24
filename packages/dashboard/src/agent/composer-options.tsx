import type { AgentStatus } from '@muster/sdk';
import { backendOfModel, reasoningEfforts, serviceTiers } from '@muster/sdk/contract';
import { useModels, useResources } from '../live/resources.ts';
import { Button } from '../parts/button.tsx';
import { ChoiceField, Field, SchemaField, SuggestionField } from '../parts/field.tsx';
import { localMinute, quickTimes } from './deliver-at.ts';
import type { Draft } from './draft.ts';

interface OptionsPart {
  readonly draft: Draft;
  readonly set: (part: Partial<Draft>) => void;
  readonly problems: ReadonlyMap<string, string>;
}

/** What a message may change about the agent from its turn on, and when and how it comes. */
export function ComposerOptions({ status, ...part }: OptionsPart & { readonly status: AgentStatus }) {
  return (
    <>
      <DeliveryOptions {...part} />
      <SettingOptions {...part} status={status} />
      <Field
        label="Tasks to add"
        hint="One per line. They join the checklist when the message is delivered."
        error={part.problems.get('tasks')}
      >
        {(attributes) => (
          <textarea
            {...attributes}
            rows={2}
            value={part.draft.tasks}
            onChange={(event) => part.set({ tasks: event.target.value })}
          />
        )}
      </Field>
      <SchemaField
        value={part.draft.outputSchema}
        onChange={(outputSchema) => part.set({ outputSchema })}
        error={part.problems.get('outputSchema')}
      />
    </>
  );
}

const kept = (value: string): string => (value === '' ? 'as it is' : `as it is: ${value}`);

function SettingOptions({ status, draft, set, problems }: OptionsPart & { readonly status: AgentStatus }) {
  const { backend } = status;
  const personas = useResources('persona').map(({ name }) => name);
  const models = useModels().filter((model) => backendOfModel(model) === backend);
  const tiers = serviceTiers[backend];
  return (
    <div className="field-row">
      <ChoiceField
        label="Persona"
        none={kept(status.persona)}
        value={draft.persona}
        values={personas}
        onChange={(persona) => set({ persona })}
        error={problems.get('agent')}
      />
      <SuggestionField
        label="Model"
        value={draft.model}
        suggestions={models}
        onChange={(model) => set({ model })}
        placeholder={kept(status.model)}
        error={problems.get('model')}
        hint={`Backend ${backend === 'BACKEND_A' ? 'A' : 'B'} only.`}
      />
      <ChoiceField
        label="Effort"
        none={kept(status.reasoningEffort)}
        value={draft.reasoningEffort}
        values={reasoningEfforts[backend]}
        onChange={(reasoningEffort) => set({ reasoningEffort })}
        error={problems.get('reasoningEffort')}
      />
      {tiers.length > 0 && (
        <ChoiceField
          label="Tier"
          none={kept(status.serviceTier)}
          value={draft.serviceTier}
          values={tiers}
          onChange={(serviceTier) => set({ serviceTier })}
          error={problems.get('serviceTier')}
        />
      )}
      <ChoiceField
        label="Fast mode"
        none={kept(status.fastMode ? 'on' : 'off')}
        value={draft.fastMode}
        values={['on', 'off']}
        onChange={(fastMode) => set({ fastMode: fastMode as Draft['fastMode'] })}
        error={problems.get('fastMode')}
      />
    </div>
  );
}

/** A message that comes later can't interrupt what runs now, so one excludes the other. */
function DeliveryOptions({ draft, set, problems }: OptionsPart) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return (
    <div className="composer-delivery">
      <Field
        label="Deliver at"
        hint={
          draft.isPreempting
            ? 'Not together with an interruption.'
            : `Your time, ${zone}. Empty: as soon as it can.`
        }
        error={problems.get('deliverAt')}
      >
        {(attributes) => (
          <input
            {...attributes}
            type="datetime-local"
            value={draft.deliverAt}
            disabled={draft.isPreempting}
            onChange={(event) => set({ deliverAt: event.target.value })}
          />
        )}
      </Field>
      <fieldset className="composer-times">
        <legend className="visually-hidden">Times one often means</legend>
        {quickTimes.map(([words, of]) => (
          <Button
            key={words}
            disabled={draft.isPreempting}
            onClick={() => set({ deliverAt: localMinute(of(new Date())) })}
          >
            {words}
          </Button>
        ))}
        {draft.deliverAt !== '' && (
          <Button look="quiet" onClick={() => set({ deliverAt: '' })}>
            As soon as it can
          </Button>
        )}
      </fieldset>
      <label className="composer-preempt">
        <input
          type="checkbox"
          checked={draft.isPreempting}
          disabled={draft.deliverAt !== ''}
          onChange={(event) => set({ isPreempting: event.target.checked })}
        />
        <span>
          Interrupt the current turn and clear the queue
          <small>
            This message runs next. Queued messages are discarded, deferred ones stay. A turn that is still
            starting is not cut short.
          </small>
          {problems.has('preempt') && <small className="field-error">{problems.get('preempt')}</small>}
        </span>
      </label>
    </div>
  );
}
