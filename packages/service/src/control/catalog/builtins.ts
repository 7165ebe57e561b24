import type { Kind } from '@muster/sdk/contract';
import type { Document } from './document.ts';

/** Resources that are there before anyone writes one. A stored resource of the same name stands before them. */
const builtins: Readonly<Partial<Record<Kind, Readonly<Record<string, Document>>>>> = {
  workspace: { default: { name: 'default', repos: [], environment: 'default', pool: 'default' } },
  environment: { default: { name: 'default', variables: {}, setup: [], allowHosts: [] } },
  pool: { default: { name: 'default', vmProfile: 'default' } },
  'vm-profile': { default: { name: 'default' } },
  persona: {
    default: {
      name: 'default',
      instructions:
        'You are a careful software engineer. Do what you are asked and nothing else, keep your checklist up to date, and say briefly what you did.',
    },
    planner: {
      name: 'planner',
      instructions:
        'You plan work before anyone does it. Read what is there, split the work into tasks with their dependencies, and ask when something essential is unclear. You change no code.',
    },
    reviewer: {
      name: 'reviewer',
      instructions:
        'You review changes. Look for what is wrong, missing or unnecessary, name the file and line, and say what would be right. You change no code.',
    },
  },
};

export const builtin = (kind: Kind, name: string): Document | undefined => {
  const ofKind = builtins[kind];
  return ofKind && Object.hasOwn(ofKind, name) ? ofKind[name] : undefined;
};

export const builtinNames = (kind: Kind): string[] => Object.keys(builtins[kind] ?? {});
