import type { Kind } from '@muster/sdk/contract';
import { knownFields } from './document-schema.ts';

interface KindTexts {
  /** As a heading: `Workspaces`. */
  readonly title: string;
  /** In a sentence: `workspace`. */
  readonly one: string;
  readonly purpose: string;
  /** The fields of the template. */
  readonly templateFields: readonly string[];
}

export const kindTexts: Readonly<Record<Kind, KindTexts>> = {
  workspace: {
    title: 'Workspaces',
    one: 'workspace',
    purpose: 'Repositories for agents, with their environment, pool, persona and model.',
    templateFields: ['repos', 'environment', 'pool'],
  },
  persona: {
    title: 'Personas',
    one: 'persona',
    purpose: 'Instructions, model and default tasks of an agent.',
    templateFields: ['instructions'],
  },
  environment: {
    title: 'Environments',
    one: 'environment',
    purpose: 'Variables, setup commands and allowed hosts.',
    templateFields: ['variables', 'setup', 'allowHosts'],
  },
  profile: {
    title: 'Profiles',
    one: 'profile',
    purpose: 'Accounts of services that act on their own, not for a person.',
    templateFields: ['displayName'],
  },
  'vm-profile': {
    title: 'VM profiles',
    one: 'VM profile',
    purpose: 'CPU and memory limits of a run.',
    templateFields: ['cpus', 'memoryMb', 'processes'],
  },
  pool: {
    title: 'Pools',
    one: 'pool',
    purpose: 'Groups of runners, and how many runs they take, each and in total.',
    templateFields: ['vmProfile', 'maxRuns'],
  },
  token: {
    title: 'Tokens',
    one: 'token',
    purpose: 'Keys for people and machines. Each key is shown once, when it is created.',
    templateFields: ['role'],
  },
  'share-link': {
    title: 'Share links',
    one: 'share link',
    purpose: 'Links that give read-only access to one agent without a key.',
    templateFields: ['agentId'],
  },
  integration: {
    title: 'Integrations',
    one: 'integration',
    purpose: 'Code hosts: GitHub, GitLab and Forgejo, each with a webhook and its own signing key.',
    templateFields: ['type'],
  },
  secret: {
    title: 'Secrets',
    one: 'secret',
    purpose: 'Values for agents and integrations. They are stored encrypted and never shown again.',
    templateFields: [],
  },
  'change-request': {
    title: 'Change requests',
    one: 'change request',
    purpose: 'Changes that agents have proposed. Read-only records.',
    templateFields: [],
  },
};

export const kindGroups: readonly (readonly [title: string, kinds: readonly Kind[]])[] = [
  ['Work', ['workspace', 'persona', 'environment', 'secret']],
  ['Machines', ['pool', 'vm-profile']],
  ['Access', ['token', 'share-link', 'integration', 'profile']],
  ['Records', ['change-request']],
];

/** The document that a new resource starts with. */
export const templateOf = (kind: Kind): Record<string, unknown> =>
  Object.fromEntries(
    knownFields(kind)
      .filter(({ name }) => kindTexts[kind].templateFields.includes(name))
      .map(({ name, example }) => [name, example]),
  );

/** Texts about the secret of a resource and about deleting it. */
interface SecretTexts {
  /** The name of the secret. */
  readonly label: string;
  /** The verb for deleting the resource. */
  readonly delete: string;
  readonly deleteEffect: string;
  readonly rotateEffect: string;
}

const withoutSecret: SecretTexts = {
  label: 'Secret',
  delete: 'Delete',
  deleteEffect: 'It is deleted for everyone. Its history and all of its versions are kept.',
  rotateEffect: '',
};

const secretTextsByKind: Readonly<Partial<Record<Kind, SecretTexts>>> = {
  token: {
    label: 'Key',
    delete: 'Revoke',
    deleteEffect: 'The key stops working within 5 seconds.',
    rotateEffect: 'A new key is created and shown once. The old key stops working within 5 seconds.',
  },
  'share-link': {
    label: 'Link',
    delete: 'Revoke',
    deleteEffect: 'The link stops working within 5 seconds, also for people who have it open.',
    rotateEffect: 'A new link is created and shown once. The old link stops working within 5 seconds.',
  },
  integration: {
    label: 'Signing key',
    delete: 'Delete',
    deleteEffect: 'Requests that are signed with its key are refused.',
    rotateEffect: 'A new signing key is created and shown once. The old key stops working within 5 seconds.',
  },
  secret: {
    label: 'Value',
    delete: 'Delete',
    deleteEffect:
      'The value is deleted. Runs whose environment or MCP servers refer to this secret will not start.',
    rotateEffect: 'The new value replaces the old one, and is used by runs that start from now on.',
  },
};

export const secretTexts = (kind: Kind): SecretTexts => secretTextsByKind[kind] ?? withoutSecret;
