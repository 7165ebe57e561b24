import {
  type Backend,
  backendOfModel,
  modelExpected,
  reasoningEfforts,
  serviceTiers,
} from '@muster/sdk/contract';
import type { PersonaSetting, Settings, SettingsChange } from './agent.ts';
import { invalid, type Refusal } from './refusal.ts';

/** Whether a change sets anything. */
export const overrides = (change: SettingsChange | null): boolean =>
  change !== null && Object.keys(change).length > 0;

/** Checks what a caller set against the agent's backend, which is fixed at spawn. */
export function refuseSettings(change: SettingsChange, settings: Settings, backend: Backend): Refusal | null {
  if (change.model !== undefined) {
    const other = backendOfModel(change.model);
    if (!other) return invalid('model', `"${change.model}" is unknown; use ${modelExpected}`);
    if (other !== backend)
      return invalid('model', `"${change.model}" runs on ${other}; this agent is on ${backend}`);
  }
  if (change.reasoningEffort !== undefined) {
    const refused = refuseEffort('reasoningEffort', change.reasoningEffort, backend);
    if (refused) return refused;
  }
  if (change.serviceTier !== undefined) {
    const refused = refuseTier('serviceTier', change.serviceTier, backend);
    if (refused) return refused;
  }
  return change.persona ? refusePersona(change, settings, backend) : null;
}

/** What the persona would set, where neither this message nor an earlier one overrides it, must fit the backend. */
function refusePersona(change: SettingsChange, settings: Settings, backend: Backend): Refusal | null {
  const persona = change.persona;
  if (!persona || persona.name === settings.persona) return null;
  const applies = (name: PersonaSetting) => change[name] === undefined && !settings.explicit.includes(name);
  if (persona.model && applies('model')) {
    const other = backendOfModel(persona.model);
    if (other !== backend) {
      return invalid(
        'agent',
        `persona "${persona.name}" has the model "${persona.model}", which is not on ${backend}`,
      );
    }
  }
  if (persona.reasoningEffort && applies('reasoningEffort')) {
    const refused = refuseEffort('agent', persona.reasoningEffort, backend);
    if (refused) return refused;
  }
  return persona.serviceTier && applies('serviceTier')
    ? refuseTier('agent', persona.serviceTier, backend)
    : null;
}

function refuseEffort(field: string, effort: string, backend: Backend): Refusal | null {
  const allowed = reasoningEfforts[backend];
  return allowed.includes(effort)
    ? null
    : invalid(field, `reasoning effort "${effort}" is not one of ${allowed.join(', ')} (${backend})`);
}

function refuseTier(field: string, tier: string, backend: Backend): Refusal | null {
  const allowed = serviceTiers[backend];
  if (allowed.includes(tier)) return null;
  return allowed.length === 0
    ? invalid(field, `${backend} has no service tiers`)
    : invalid(field, `service tier "${tier}" is not one of ${allowed.join(', ')}`);
}

/**
 * The settings once a change has taken effect. What a caller sets by name stays over any persona; the rest follows
 * the persona. Naming the current persona again changes nothing.
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
