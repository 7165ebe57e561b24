import type { AgentStatus } from '@muster/sdk';
import { backendFacts, backendOfModel } from '@muster/sdk/contract';
import { type ReactNode, useId, useState } from 'react';
import { useModels, useOwnModels, useResources } from '../../live/resources.ts';
import { Button } from '../../parts/button.tsx';
import { SchemaField, TextField } from '../../parts/field.tsx';
import {
  type Draft,
  hasTasks,
  isRunning,
  localMinute,
  maySteer,
  quickTimes,
  scheduleText,
} from '../model/message-draft.ts';

interface OptionProps {
  readonly status: AgentStatus;
  readonly draft: Draft;
  readonly update: (changed: Partial<Draft>) => void;
  readonly problems: ReadonlyMap<string, string>;
  /** Whether all options are shown, or only those that are set. */
  readonly isOpen: boolean;
}

type Panel = 'deliverAt' | 'tasks' | 'outputSchema';

/** What can be set for a message, as chips: a choice is made in its chip, a text in a field below. */
export function ComposerOptions({ isOpen, ...props }: OptionProps) {
  const { draft, problems } = props;
  const [chosen, setChosen] = useState<Panel | null>(null);
  const id = useId();
  const failing = panels.find((name) => problems.has(name));
  const shown = chosen ?? failing ?? null;
  const isSet: Readonly<Record<Panel, boolean>> = {
    deliverAt: draft.deliverAt !== '',
    tasks: hasTasks(draft),
    outputSchema: draft.outputSchema.trim() !== '',
  };
  const panelChip = (name: Panel, text: string) =>
    (isOpen || isSet[name] || shown === name) && (
      <Chip
        isSet={isSet[name]}
        isShown={shown === name}
        controls={id}
        onToggle={() => setChosen(shown === name ? null : name)}
      >
        {text}
      </Chip>
    );
  return (
    <>
      <div className="composer-chips">
        <SettingChips {...props} isOpen={isOpen} />
        <DeliveryChip {...props} />
        {panelChip('deliverAt', draft.deliverAt === '' ? 'Schedule' : scheduleText(draft))}
        <InterruptChip {...props} isOpen={isOpen} />
        {panelChip('tasks', 'Tasks')}
        {panelChip('outputSchema', 'Output schema')}
      </div>
      {[...problems]
        .filter(([field]) => field !== 'description' && !(panels as readonly string[]).includes(field))
        .map(([field, text]) => (
          <p key={field} id={`${field}-problem`} className="field-error" role="alert">
            {text}
          </p>
        ))}
      {draft.isPreempting && (
        <p className="secondary">
          Runs next. Queued messages are discarded, scheduled ones stay. A turn that is still starting is not
          interrupted.
        </p>
      )}
      {shown !== null && (
        <div id={id} className="composer-panel stack">
          <OptionPanel {...props} name={shown} />
        </div>
      )}
    </>
  );
}

const panels: readonly Panel[] = ['deliverAt', 'tasks', 'outputSchema'];

const Chip = ({
  isSet,
  isShown,
  controls,
  onToggle,
  children,
}: {
  readonly isSet: boolean;
  readonly isShown: boolean;
  readonly controls: string;
  readonly onToggle: () => void;
  readonly children: ReactNode;
}) => (
  <button
    type="button"
    className="chip"
    data-set={isSet}
    aria-expanded={isShown}
    aria-controls={isShown ? controls : undefined}
    onClick={onToggle}
  >
    {children}
  </button>
);

type PartProps = Omit<OptionProps, 'isOpen'>;

function OptionPanel({ name, draft, update, problems }: PartProps & { readonly name: Panel }) {
  if (name === 'deliverAt') return <Schedule {...{ draft, update, problems }} />;
  if (name === 'outputSchema')
    return (
      <SchemaField
        value={draft.outputSchema}
        onChange={(outputSchema) => update({ outputSchema })}
        error={problems.get('outputSchema')}
      />
    );
  return (
    <TextField
      label="Tasks to add"
      hint="One per line. Added to the checklist when the message is delivered."
      error={problems.get('tasks')}
      rows={2}
      value={draft.tasks}
      onChange={(tasks) => update({ tasks })}
    />
  );
}

type Setting = 'persona' | 'reasoningEffort' | 'serviceTier' | 'fastMode';

/** Settings hold from the turn of this message on. */
function SettingChips({ status, draft, update, problems, isOpen }: OptionProps) {
  const { backend } = status;
  const personas = useResources('persona').map(({ name }) => name);
  const own = useOwnModels();
  const models = useModels().filter((model) => backendOfModel(model, own) === backend);
  const listId = useId();
  const { title, reasoningEfforts, serviceTiers } = backendFacts[backend];
  const choices: readonly (readonly [Setting, string, readonly string[], string])[] = [
    ['persona', 'Persona', personas, status.persona],
    ['reasoningEffort', 'Effort', reasoningEfforts, status.reasoningEffort],
    ['serviceTier', 'Tier', serviceTiers, status.serviceTier],
    ['fastMode', 'Fast mode', ['on', 'off'], status.fastMode ? 'on' : 'off'],
  ];
  const isShown = (field: keyof Draft, problem: string = field) =>
    isOpen || draft[field] !== '' || problems.has(problem);
  const problemOf = (field: string) => ({
    'aria-invalid': problems.has(field),
    'aria-describedby': problems.has(field) ? `${field}-problem` : undefined,
  });
  const chips = choices
    .filter(([, , values]) => values.length > 0)
    .map(([field, label, values, current]) => {
      // The API calls the persona of a message `agent`.
      const problem = field === 'persona' ? 'agent' : field;
      return (
        isShown(field, problem) && (
          <select
            key={field}
            className="chip"
            data-set={draft[field] !== ''}
            aria-label={label}
            {...problemOf(problem)}
            value={draft[field]}
            onChange={(event) => update({ [field]: event.target.value })}
          >
            <option value="">{label}</option>
            {(draft[field] === '' || values.includes(draft[field]) ? values : [draft[field], ...values]).map(
              (value) => (
                <option key={value} value={value}>
                  {`${label} ${value}${value === current ? ' (current)' : ''}`}
                </option>
              ),
            )}
          </select>
        )
      );
    });
  return (
    <>
      {isShown('model') && (
        <>
          <input
            className="chip"
            data-set={draft.model !== ''}
            aria-label="Model"
            title={`The current model is ${status.model}. Models of ${title} only.`}
            placeholder={`Model ${status.model}`}
            list={listId}
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            {...problemOf('model')}
            value={draft.model}
            onChange={(event) => update({ model: event.target.value })}
          />
          <datalist id={listId}>
            {models.map((model) => (
              <option key={model} value={model} />
            ))}
          </datalist>
        </>
      )}
      {chips}
    </>
  );
}

/** Of a message to a turn that can take it. */
function DeliveryChip({ status, draft, update }: PartProps) {
  if (!isRunning(status) || !maySteer(draft)) return null;
  return (
    <select
      className="chip"
      aria-label="Delivery"
      value={draft.isAfterTurn ? 'after' : 'steer'}
      onChange={(event) => update({ isAfterTurn: event.target.value === 'after' })}
    >
      <option value="steer">Add to this turn</option>
      <option value="after">After this turn</option>
    </select>
  );
}

/** A scheduled message can't interrupt the current turn, so one option disables the other. */
function InterruptChip({ draft, update, isOpen }: OptionProps) {
  if (!isOpen && !draft.isPreempting) return null;
  return (
    <label
      className="chip"
      data-set={draft.isPreempting}
      title="Interrupts the current turn and clears the queue"
    >
      <input
        type="checkbox"
        checked={draft.isPreempting}
        disabled={draft.deliverAt !== ''}
        onChange={(event) => update({ isPreempting: event.target.checked })}
      />
      Interrupt
    </label>
  );
}

function Schedule({ draft, update, problems }: Pick<PartProps, 'draft' | 'update' | 'problems'>) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return (
    <div className="composer-delivery wrap">
      <TextField
        label="Deliver at"
        hint={draft.isPreempting ? 'Not available when interrupting the turn.' : `Local time, ${zone}.`}
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
    </div>
  );
}
