import type { Backend, ModelProvider } from '@muster/sdk/contract';
import { modelProviders } from '@muster/sdk/contract';
import type { RunnerLog } from '../../lib/log.ts';
import { type Environment, isOn } from '../workspace/environment.ts';
import type { Account } from './account.ts';
import { anthropicAccount, azureAccount, openaiAccount } from './api-keys.ts';
import { bedrockAccount } from './bedrock.ts';
import { chatgptAccount } from './chatgpt.ts';
import { vertexAccount } from './vertex.ts';

/** The accounts of a runner, one for each provider that its environment configures. */
export type Accounts = Readonly<Partial<Record<ModelProvider, Account>>>;

/** Throws an error that names the variable. */
export function accountsOf(environment: Environment, log?: RunnerLog): Accounts {
  const found = [
    anthropicAccount(environment),
    bedrockAccount(environment),
    vertexAccount(environment),
    openaiAccount(environment),
    azureAccount(environment),
    chatgptAccount(environment, log),
  ];
  return Object.fromEntries(found.flatMap((account) => (account ? [[account.name, account]] : [])));
}

/** Whether the environment has an account at all, whether or not it is complete. */
export const hasAccount = (environment: Environment): boolean =>
  accountVariables.some((name) => environment[name]) ||
  isOn(environment.CLAUDE_CODE_USE_BEDROCK) ||
  isOn(environment.CLAUDE_CODE_USE_VERTEX);

const accountVariables = [
  ...['ANTHROPIC_AUTH_TOKEN', 'ANTHROPIC_API_KEY', 'CLAUDE_CODE_OAUTH_TOKEN'],
  ...['OPENAI_API_KEY', 'AZURE_OPENAI_ENDPOINT', 'AZURE_OPENAI_API_KEY', 'MUSTER_CODEX_AUTH'],
];

/**
 * Of several accounts of a backend, the first that is configured serves the models that the table of models does not
 * assign to a provider. For Claude the order is that of Claude Code.
 */
const precedence: Readonly<Record<Backend, readonly ModelProvider[]>> = {
  BACKEND_A: ['bedrock', 'vertex', 'anthropic'],
  BACKEND_B: ['azure', 'openai', 'chatgpt'],
};

export const usualProvider = (backend: Backend, accounts: Accounts): ModelProvider | undefined =>
  precedence[backend].find((name) => accounts[name]);

/** Which account serves the backend, and which others models of the table may use. */
export function accountText(backend: Backend, accounts: Accounts): string | undefined {
  const usual = usualProvider(backend, accounts);
  if (!usual) return undefined;
  const others = modelProviders[backend].filter((name) => name !== usual && accounts[name]);
  return [accounts[usual]?.about, ...others.map((name) => `also ${accounts[name]?.about}`)].join('; ');
}
