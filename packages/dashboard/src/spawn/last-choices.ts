import type { Tenant } from '@muster/sdk';

/** What most people choose once and keep. What an agent is to do is never among it. */
export interface LastChoices {
  readonly workspace: string;
  readonly persona: string;
  readonly model: string;
  readonly reasoningEffort: string;
  readonly serviceTier: string;
}

export const noChoices: LastChoices = {
  workspace: 'default',
  persona: '',
  model: '',
  reasoningEffort: '',
  serviceTier: '',
};

const names = Object.keys(noChoices) as (keyof LastChoices)[];

/** Each tenant has a catalog of its own. */
const storageKey = ({ provider, org }: Tenant): string => `muster.spawn.${provider}/${org}`;

export const lastChoices = (tenant: Tenant): LastChoices =>
  choicesIn(localStorage.getItem(storageKey(tenant)));

export const rememberChoices = (tenant: Tenant, choices: LastChoices): void =>
  localStorage.setItem(storageKey(tenant), JSON.stringify(choices, names));

export const forgetChoices = (tenant: Tenant): void => localStorage.removeItem(storageKey(tenant));

/** Whatever stands in the storage: others may have written it, or a version before this one. */
export function choicesIn(stored: string | null): LastChoices {
  const known: Partial<Record<string, unknown>> = parsed(stored) ?? {};
  const text = (name: keyof LastChoices) => (typeof known[name] === 'string' ? known[name] : noChoices[name]);
  return Object.fromEntries(names.map((name) => [name, text(name)])) as unknown as LastChoices;
}

function parsed(stored: string | null): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(stored ?? 'null');
    return typeof value === 'object' ? (value as Record<string, unknown> | null) : null;
  } catch {
    return null;
  }
}

export const isChosen = (choices: LastChoices): boolean =>
  names.some((name) => choices[name] !== noChoices[name]);

/** "workspace web, model opus": what differs from nothing chosen. */
export const choiceWords = (choices: LastChoices): string =>
  names
    .filter((name) => choices[name] !== noChoices[name])
    .map((name) => `${words[name]} ${choices[name]}`)
    .join(', ');

const words: Readonly<Record<keyof LastChoices, string>> = {
  workspace: 'workspace',
  persona: 'persona',
  model: 'model',
  reasoningEffort: 'effort',
  serviceTier: 'tier',
};
