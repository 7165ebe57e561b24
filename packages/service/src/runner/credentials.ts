import { type Backend, backends } from '@muster/sdk/contract';

/** What a runner can play, by the provider keys it was given. */
export interface Abilities {
  readonly backends: readonly Backend[];
  /** It plays every model name of either backend by the rehearsal agent. */
  readonly rehearses: boolean;
}

/** With no key at all everything is rehearsed; with any, a real model is never played by the rehearsal agent. */
export function abilitiesOf(environment: Readonly<Record<string, string | undefined>>): Abilities {
  const keys = [environment.ANTHROPIC_API_KEY, environment.OPENAI_API_KEY];
  if (keys.some((key) => key !== undefined && key !== '')) return { backends: [], rehearses: false };
  return { backends, rehearses: true };
}
