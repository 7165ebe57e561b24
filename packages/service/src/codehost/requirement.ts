import type { HostRequirement } from './host.ts';

/** What an integration needs at its host, and what to change if it is not there. */
export const requirement = (name: string, isMet: boolean, advice: string): HostRequirement => ({
  name,
  isMet,
  advice: isMet ? '' : advice,
});

export const met = (name: string): HostRequirement => requirement(name, true, '');

export const missing = (name: string, advice: string): HostRequirement => requirement(name, false, advice);
