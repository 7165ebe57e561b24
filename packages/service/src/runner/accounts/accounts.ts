import { createHash } from 'node:crypto';
import { type Backend, backendFacts, type ModelProvider, modelProviders } from '@muster/sdk/contract';
import type { RunnerLog } from '../../lib/log.ts';
import { type Environment, isOn } from '../workspace/environment.ts';
import { type Account, providerFacts } from './account.ts';
import { accountEntries, accountsName } from './accounts-file.ts';
import { anthropicAccount, azureAccount, openaiAccount } from './api-keys.ts';
import { bedrockAccount } from './bedrock.ts';
import { chatgptAccount } from './chatgpt.ts';
import { type NamedAccount, ProviderAccounts } from './provider-accounts.ts';
import { vertexAccount } from './vertex.ts';

/** The accounts of a runner, by provider. */
export type Accounts = Readonly<Partial<Record<ModelProvider, ProviderAccounts>>>;

type Open = (environment: Environment, log?: RunnerLog) => Account | undefined;

/** The account that variables describe. */
const openers: Readonly<Record<ModelProvider, Open>> = {
  anthropic: anthropicAccount,
  bedrock: bedrockAccount,
  vertex: vertexAccount,
  openai: openaiAccount,
  azure: azureAccount,
  chatgpt: chatgptAccount,
};

/** Its account of the runner's own variables comes first. Throws an error that names the variable. */
export function accountsOf(environment: Environment, log?: RunnerLog): Accounts {
  const all = [...ownAccounts(environment, log), ...listedAccounts(environment, log)];
  return Object.fromEntries(
    modelProviders.flatMap((provider) => {
      const accounts = all.filter((account) => account.provider === provider);
      return accounts.length > 0 ? [[provider, new ProviderAccounts(accounts)]] : [];
    }),
  );
}

const ownName = 'default';

function ownAccounts(environment: Environment, log?: RunnerLog): NamedAccount[] {
  return modelProviders.flatMap((provider) => {
    const account = openers[provider](environment, log);
    return account ? [{ ...account, id: `${provider}/${ownName}`, models: [] }] : [];
  });
}

function listedAccounts(environment: Environment, log?: RunnerLog): NamedAccount[] {
  return accountEntries(environment).map(({ provider, name, models, variables, at }) => {
    if (name === ownName)
      throw new Error(`${at}.name: "${ownName}" is the account of the runner's own variables`);
    let account: Account | undefined;
    try {
      account = openers[provider](variables, log);
    } catch (error) {
      throw new Error(`${at}.variables: ${(error as Error).message}`);
    }
    if (!account) throw new Error(`${at}.variables: ${providerFacts[provider].setting} is required`);
    const ofEntry = `of the account ${name} in ${accountsName}`;
    return {
      ...account,
      setting: `${account.setting} ${ofEntry}`,
      about: `${name}: ${account.about}`,
      id: `${provider}/${name}`,
      models,
    };
  });
}

/**
 * A name for the accounts of each provider that differs when their credentials do, and says nothing about them.
 * Credentials that are renewed may get another name at the next start.
 */
export const accountNames = (accounts: Accounts): Readonly<Partial<Record<ModelProvider, string>>> =>
  Object.fromEntries(
    Object.entries(accounts).map(([provider, { all }]) => {
      const digest = createHash('sha256');
      for (const { about, secrets } of all) digest.update(JSON.stringify([provider, about, secrets()]));
      return [provider, `${provider}/${digest.digest('hex').slice(0, 12)}`];
    }),
  );

/** Whether the environment has an account at all, whether or not it is complete. */
export const hasAccount = (environment: Environment): boolean =>
  accountVariables.some((name) => environment[name]) ||
  isOn(environment.CLAUDE_CODE_USE_BEDROCK) ||
  isOn(environment.CLAUDE_CODE_USE_VERTEX);

const accountVariables = [
  ...['ANTHROPIC_AUTH_TOKEN', 'ANTHROPIC_API_KEY', 'CLAUDE_CODE_OAUTH_TOKEN'],
  ...['OPENAI_API_KEY', 'AZURE_OPENAI_ENDPOINT', 'AZURE_OPENAI_API_KEY', 'MUSTER_CODEX_AUTH', accountsName],
];

/**
 * Of several providers of a backend, the one that serves the models that the table of models does not assign to a provider.
 */
export const usualProvider = (backend: Backend, accounts: Accounts): ModelProvider | undefined =>
  backendFacts[backend].usualProviders.find((name) => accounts[name]);

/** Which accounts serve the backend, in their order, and which others models of the table may use. */
export function accountText(backend: Backend, accounts: Accounts): string | undefined {
  const usual = usualProvider(backend, accounts);
  if (!usual) return undefined;
  const others = backendFacts[backend].providers.filter((name) => name !== usual && accounts[name]);
  const textOf = (name: ModelProvider) => accounts[name]?.all.map(({ about }) => about).join(', then ');
  return [textOf(usual), ...others.map((name) => `also ${textOf(name)}`)].join('; ');
}
