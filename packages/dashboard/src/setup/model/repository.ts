import type { AgentStatus } from '@muster/sdk';
import { isTerminal } from '@muster/sdk/contract';

const maxNameLength = 60;

/** A name for the workspace of a repository: the last part of its URL or path; empty if that has none. */
export function workspaceNameOf(repository: string): string {
  const path = repository
    .trim()
    .replace(/[?#].*$/, '')
    .replace(/\/+$/, '');
  const last = path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf(':')) + 1).replace(/\.git$/, '');
  return last
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[.-]+|[.-]+$/g, '')
    .slice(0, maxNameLength);
}

export type RepositoryState =
  | { readonly type: 'checking'; readonly text: string }
  | { readonly type: 'readable' }
  | { readonly type: 'problem'; readonly problem: RepositoryProblem };

/** What the agent that clones the repository says of it. */
export function repositoryState({ phase, phaseReason, error, needsInput }: AgentStatus): RepositoryState {
  if (phase === 'PHASE_COMPLETED') return { type: 'readable' };
  const message = error?.message || needsInput;
  if (phaseReason === 'BLOCKED' || phaseReason === 'RETRYING' || isTerminal(phase))
    return { type: 'problem', problem: repositoryProblem(message || 'The check was ended.') };
  if (phaseReason === 'NO_RUNNER' || phaseReason === 'POOL_FULL')
    return { type: 'checking', text: 'Waiting for a runner with a free slot …' };
  return { type: 'checking', text: 'A runner clones the repository …' };
}

export interface RepositoryProblem {
  readonly title: string;
  readonly advice: string;
  /** What git or the runner said. */
  readonly message: string;
  /** An integration has the credentials. */
  readonly needsCredentials: boolean;
}

type Rule = readonly [said: RegExp, title: string, advice: string, needsCredentials?: boolean];

/** The first that matches. A host says "not found" of a repository that it hides, too. */
const rules: readonly Rule[] = [
  [
    /Authentication failed|could not read (Username|Password)|terminal prompts disabled|returned error: 40[13]|Permission denied \(|Host key verification failed/i,
    'The host asks for credentials',
    'The repository is private, or its name is wrong. An integration with a token for the host gives agents access.',
    true,
  ],
  [
    /Could not resolve host|Name or service not known|Temporary failure in name resolution/i,
    'The host name can’t be resolved',
    'Check the name of the host.',
  ],
  [
    /internal network|inner address|TENANT_ALLOW|data folder|is in \/proc|not allowed|may not/i,
    'The runner refuses this address',
    'Its operator decides which addresses agents may reach.',
  ],
  [
    /not found|does not exist|does not appear to be a git repository|No such file/i,
    'The repository was not found',
    'Check the address. A path must be on the machine of the runner, and readable by its user. A private repository may need an integration.',
    true,
  ],
  [
    /Connection (refused|reset|timed out)|Failed to connect|Could not connect|unreachable|timed out/i,
    'The host can’t be reached',
    'Muster tries again by itself. Check the address, and whether the runner may connect to it.',
  ],
];

export function repositoryProblem(message: string): RepositoryProblem {
  const [, title, advice, needsCredentials = false] = rules.find(([said]) => said.test(message)) ?? [
    null,
    'The repository can’t be read',
    'Fix what the message says, and check again.',
  ];
  return { title, advice, message, needsCredentials };
}
