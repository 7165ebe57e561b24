import type { Kind } from '@muster/sdk/contract';
import { knownFields } from './text/known-fields.ts';

interface KindWords {
  /** As a heading: `Workspaces`. */
  readonly title: string;
  /** In a sentence: `workspace`. */
  readonly one: string;
  /** What it is for. */
  readonly purpose: string;
  /** The known fields that a new one begins with. */
  readonly begins: readonly string[];
}

export const kindWords: Readonly<Record<Kind, KindWords>> = {
  workspace: {
    title: 'Workspaces',
    one: 'workspace',
    purpose: 'The repositories that an agent works in, and where and how it does.',
    begins: ['repos', 'environment', 'pool'],
  },
  persona: {
    title: 'Personas',
    one: 'persona',
    purpose: 'Who an agent is: its instructions, its model and the tasks it always has.',
    begins: ['instructions'],
  },
  environment: {
    title: 'Environments',
    one: 'environment',
    purpose: 'Variables, set-up commands, and the hosts that an agent may reach.',
    begins: ['variables', 'setup', 'allowHosts'],
  },
  profile: {
    title: 'Profiles',
    one: 'profile',
    purpose: 'Names for services that act by themselves, not for a person.',
    begins: ['displayName'],
  },
  'vm-profile': {
    title: 'VM profiles',
    one: 'VM profile',
    purpose: 'How much processor and memory one run may use.',
    begins: ['cpus', 'memoryMb', 'processes'],
  },
  pool: {
    title: 'Pools',
    one: 'pool',
    purpose: 'Runners that work alike, and how many runs each of them takes.',
    begins: ['vmProfile', 'maxRuns'],
  },
  token: {
    title: 'Tokens',
    one: 'token',
    purpose: 'Keys for people and machines. Each key is shown once, when it is made.',
    begins: ['role'],
  },
  'share-link': {
    title: 'Share links',
    one: 'share link',
    purpose: 'Links that show one agent, read-only, to somebody without a key.',
    begins: ['agentId'],
  },
  integration: {
    title: 'Integrations',
    one: 'integration',
    purpose: 'What calls in from outside, each with a signing key of its own.',
    begins: ['type'],
  },
  'change-request': {
    title: 'Change requests',
    one: 'change request',
    purpose: 'Changes that agents have proposed. They are records and read only.',
    begins: [],
  },
};

/** Which kinds stand together. */
export const kindGroups: readonly (readonly [title: string, kinds: readonly Kind[]])[] = [
  ['Work', ['workspace', 'persona', 'environment']],
  ['Machines', ['pool', 'vm-profile']],
  ['Access', ['token', 'share-link', 'integration', 'profile']],
  ['Records', ['change-request']],
];

/** What a new one begins with, so that nobody faces an empty page. */
export const templateOf = (kind: Kind): Record<string, unknown> =>
  Object.fromEntries(
    knownFields(kind)
      .filter(({ name }) => kindWords[kind].begins.includes(name))
      .map(({ name, example }) => [name, example]),
  );
