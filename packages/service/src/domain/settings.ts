import {
  type Backend,
  backendFacts,
  backendOfModel,
  modelExpected,
  type OwnModels,
} from '@muster/sdk/contract';
import type { PersonaSetting, Settings, SettingsChange } from './agent.ts';
import { invalid, type Refusal } from './refusal.ts';

/** Whether a change sets anything. */
export const overrides = (change: SettingsChange | null): boolean =>
  change !== null && Object.keys(change).length > 0;

/** Checks what a caller set against the agent's backend, which is fixed at spawn. */
export function refuseSettings(
  change: SettingsChange,
  settings: Settings,
  backend: Backend,
  own: OwnModels = {},
): Refusal | null {
  const { model, reasoningEffort, serviceTier } = change;
  if (model !== undefined) {
    const other = backendOfModel(model, own);
    if (!other) return invalid('model', `"${model}" is unknown; use ${modelExpected(own)}`);
    if (other !== backend)
      return invalid(
        'model',
        `"${model}" is a model of ${backendFacts[other].title}; this agent runs on ${backendFacts[backend].title}`,
      );
  }
  return (
    refuseEffort('reasoningEffort', reasoningEffort, backend) ??
    refuseTier('serviceTier', serviceTier, backend) ??
    refusePersona(change, settings, backend, own)
  );
}

/** What the persona would set, where neither this message nor an earlier one overrides it, must fit the backend. */
function refusePersona(
  change: SettingsChange,
  settings: Settings,
  backend: Backend,
  own: OwnModels,
): Refusal | null {
  const { persona } = change;
  if (!persona || persona.name === settings.persona) return null;
  const applied = (name: 'model' | 'reasoningEffort' | 'serviceTier') =>
    change[name] === undefined && !settings.explicit.includes(name) ? persona[name] : '';
  const model = applied('model');
  if (model && backendOfModel(model, own) !== backend) {
    const message = `persona "${persona.name}" has the model "${model}", which is not one of ${backendFacts[backend].title}`;
    return invalid('agent', message);
  }
  return (
    refuseEffort('agent', applied('reasoningEffort'), backend) ??
    refuseTier('agent', applied('serviceTier'), backend)
  );
}

function refuseEffort(field: string, effort: string | undefined, backend: Backend): Refusal | null {
  const { reasoningEfforts: allowed, title } = backendFacts[backend];
  return !effort || allowed.includes(effort)
    ? null
    : invalid(field, `reasoning effort "${effort}" is not one of ${allowed.join(', ')} (${title})`);
}

function refuseTier(field: string, tier: string | undefined, backend: Backend): Refusal | null {
  const { serviceTiers: allowed, title } = backendFacts[backend];
  if (!tier || allowed.includes(tier)) return null;
  return allowed.length === 0
    ? invalid(field, `${title} has no service tiers`)
    : invalid(field, `service tier "${tier}" is not one of ${allowed.join(', ')}`);
}

/**
 * The settings after a change. What a caller has set by name takes precedence over every persona; the rest comes from the
 * persona. Naming the current persona again changes nothing.
 */
export function applied(settings: Settings, change: SettingsChange | null): Settings {
  if (!change) return settings;
  const explicit = new Set(settings.explicit);
  for (const name of ['model', 'reasoningEffort', 'serviceTier', 'fastMode'] as const) {
    if (change[name] !== undefined) explicit.add(name);
  }
  const persona = change.persona && change.persona.name !== settings.persona ? change.persona : undefined;
  const fromPersona = <T>(name: PersonaSetting, value: T | undefined, current: T): T =>
    persona && value && !explicit.has(name) ? value : current;
  return {
    persona: persona?.name ?? settings.persona,
    instructions: persona?.instructions ?? settings.instructions,
    model: change.model ?? fromPersona('model', persona?.model, settings.model),
    reasoningEffort:
      change.reasoningEffort ??
      fromPersona('reasoningEffort', persona?.reasoningEffort, settings.reasoningEffort),
    serviceTier: change.serviceTier ?? fromPersona('serviceTier', persona?.serviceTier, settings.serviceTier),
    fastMode:
      change.fastMode ??
      (persona && persona.fastMode !== null && !explicit.has('fastMode')
        ? persona.fastMode
        : settings.fastMode),
    outputSchema: change.outputSchema ?? settings.outputSchema,
    explicit: [...explicit],
  };
}

/** Whether both settings are the same, no matter which values a caller has set by name. */
export const sameInForce = ({ explicit: _, ...a }: Settings, { explicit: __, ...b }: Settings): boolean =>
  Object.keys(a).every((name) => a[name as keyof typeof a] === b[name as keyof typeof b]);

/** Whether a change switches the persona, and so the tasks that the old one brought. */
export const switchesPersona = (settings: Settings, change: SettingsChange | null): boolean =>
  change?.persona !== undefined && change.persona.name !== settings.persona;
