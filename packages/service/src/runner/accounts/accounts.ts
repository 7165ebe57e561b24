import { createHash } from 'node:crypto';
import { type Backend, backendFacts, type ModelProvider } from '@muster/sdk/contract';
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

/**
 * A name for each account that differs when its credentials do, and says nothing about them. Credentials that are
 * renewed may get another name at the next start.
 */
export const accountNames = (accounts: Accounts): Readonly<Partial<Record<ModelProvider, string>>> =>
  Object.fromEntries(
    Object.values(accounts).map(({ name, about, secrets }) => {
      const digest = createHash('sha256').update(JSON.stringify([name, about, secrets()]));
      return [name, `${name}/${digest.digest('hex').slice(0, 12)}`];
    }),
  );

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
 * Of several accounts of a backend, the one that serves the models that the table of models does not assign to a provider.
 */
export const usualProvider = (backend: Backend, accounts: Accounts): ModelProvider | undefined =>
  backendFacts[backend].usualProviders.find((name) => accounts[name]);

/** Which account serves the backend, and which others models of the table may use. */
export function accountText(backend: Backend, accounts: Accounts): string | undefined {
  const usual = usualProvider(backend, accounts);
  if (!usual) return undefined;
  const others = backendFacts[backend].providers.filter((name) => name !== usual && accounts[name]);
  return [accounts[usual]?.about, ...others.map((name) => `also ${accounts[name]?.about}`)].join('; ');
}
