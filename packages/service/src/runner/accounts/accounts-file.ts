import { readFileSync } from 'node:fs';
import { type ModelProvider, modelProviders } from '@muster/sdk/contract';
import { parseDocument } from 'yaml';
import { isObject } from '../../lib/json.ts';
import { type Environment, isRunnerSecret } from '../workspace/environment.ts';

/** The variable that names a file with further accounts. */
export const accountsName = 'MUSTER_ACCOUNTS';

/** One entry: the variables that describe an account of this kind when they are in the runner's own environment. */
export interface AccountEntry {
  readonly provider: ModelProvider;
  readonly name: string;
  readonly models: readonly string[];
  readonly variables: Environment;
  /** Where it is, for errors. */
  readonly at: string;
}

interface VariableFacts {
  readonly variables: readonly string[];
  /** What the environment of a runner has beside the variables. */
  readonly implied?: Environment;
}

const customHeaders = 'ANTHROPIC_CUSTOM_HEADERS';
const facts: Readonly<Record<ModelProvider, VariableFacts>> = {
  anthropic: {
    variables: [
      ...['ANTHROPIC_API_KEY', 'ANTHROPIC_AUTH_TOKEN', 'CLAUDE_CODE_OAUTH_TOKEN'],
      ...['ANTHROPIC_BASE_URL', customHeaders],
    ],
  },
  bedrock: {
    variables: [
      ...['AWS_REGION', 'AWS_BEARER_TOKEN_BEDROCK', 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'],
      ...['AWS_SESSION_TOKEN', 'AWS_PROFILE', 'AWS_SHARED_CREDENTIALS_FILE', 'AWS_CONFIG_FILE'],
      ...['ANTHROPIC_BEDROCK_BASE_URL', customHeaders],
    ],
    implied: { CLAUDE_CODE_USE_BEDROCK: '1' },
  },
  vertex: {
    variables: [
      ...['CLOUD_ML_REGION', 'ANTHROPIC_VERTEX_PROJECT_ID', 'GOOGLE_APPLICATION_CREDENTIALS'],
      ...['ANTHROPIC_VERTEX_BASE_URL', customHeaders],
    ],
    implied: { CLAUDE_CODE_USE_VERTEX: '1' },
  },
  openai: { variables: ['OPENAI_API_KEY', 'OPENAI_BASE_URL'] },
  azure: { variables: ['AZURE_OPENAI_ENDPOINT', 'AZURE_OPENAI_API_KEY', 'AZURE_OPENAI_API_VERSION'] },
  chatgpt: { variables: ['MUSTER_CODEX_AUTH', 'MUSTER_CHATGPT_URL', 'CODEX_REFRESH_TOKEN_URL_OVERRIDE'] },
};

const fields = ['provider', 'name', 'models', 'variables'];
/** As many as a poll reports. */
const mostAccounts = 100;
const mostModels = 100;
const example =
  '[{"provider": "anthropic", "name": "spare", "variables": {"ANTHROPIC_API_KEY_FILE": "/run/secrets/spare"}}]';

/** Throws an error that names the file, the entry and the field. It shows no value, which may be secret. */
export function accountEntries(environment: Environment): AccountEntry[] {
  const file = environment[accountsName];
  if (!file) return [];
  const list = contentOf(file);
  const entries = list.map((given, index) => entryOf(given, file, index, environment));
  for (const [index, { at, name, provider }] of entries.entries())
    if (entries.slice(0, index).some((other) => other.name === name && other.provider === provider))
      throw new Error(`${at}.name: another ${provider} account has the name "${name}"; choose another one`);
  return entries;
}

function contentOf(file: string): unknown[] {
  const problem = (text: string): Error => new Error(`${accountsName} (${file}): ${text}`);
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw problem(`can't be read: ${(error as Error).message}`);
  }
  // Its own messages quote the line.
  const document = parseDocument(text, { prettyErrors: false });
  const [error] = document.errors;
  if (error) {
    const line = text.slice(0, error.pos[0]).split('\n').length;
    throw problem(`line ${line} is not valid YAML or JSON (${error.code})`);
  }
  const list: unknown = document.toJS();
  if (!Array.isArray(list) || list.length === 0)
    throw problem(`expected a list of accounts such as ${example}`);
  if (list.length > mostAccounts)
    throw problem(`expected at most ${mostAccounts} accounts; got ${list.length}`);
  return list;
}

function entryOf(given: unknown, file: string, index: number, environment: Environment): AccountEntry {
  const at = `${accountsName} (${file}): [${index}]`;
  if (!isObject(given)) throw new Error(`${at}: expected an account such as ${example.slice(1, -1)}`);
  const unknown = Object.keys(given).find((name) => !fields.includes(name));
  if (unknown !== undefined)
    throw new Error(`${at}.${unknown}: unknown field; expected ${fields.join(', ')}`);
  const provider = modelProviders.find((name) => name === given.provider);
  if (!provider)
    throw new Error(
      `${at}.provider: expected one of ${modelProviders.join(', ')}; got ${shown(given.provider)}`,
    );
  const { name, models = [] } = given;
  if (typeof name !== 'string' || !/^[A-Za-z0-9][\w.-]{0,63}$/.test(name))
    throw new Error(
      `${at}.name: expected 1 to 64 letters, digits and . _ -, the first of them a letter or digit; got ${shown(name)}`,
    );
  if (!Array.isArray(models) || models.length > mostModels || !models.every(isPattern))
    throw new Error(
      `${at}.models: expected at most ${mostModels} names of models at the provider, with * for any text, such as claude-opus-*`,
    );
  const variables = variablesOf(given.variables ?? {}, `${at}.variables`, provider, environment);
  return { provider, name, models, at, variables: { ...facts[provider].implied, ...variables } };
}

const isPattern = (value: unknown): value is string =>
  typeof value === 'string' && /^[\w.:@/*[\]-]{1,256}$/.test(value);

function variablesOf(
  given: unknown,
  at: string,
  provider: ModelProvider,
  environment: Environment,
): Record<string, string> {
  if (!isObject(given)) throw new Error(`${at}: expected an object of variables`);
  const known = facts[provider].variables;
  const found: Record<string, string> = {};
  for (const [key, value] of Object.entries(given)) {
    const fromFile = key.endsWith('_FILE') && !known.includes(key);
    const name = fromFile ? key.slice(0, -'_FILE'.length) : key;
    if (!known.includes(name))
      throw new Error(
        `${at}.${key}: not a variable of ${provider} accounts; expected ${known.join(', ')}, or one of these with _FILE`,
      );
    if (Object.hasOwn(found, name)) throw new Error(`${at}.${key}: ${name} is given twice`);
    const text = givenIn(value, `${at}.${key}`, environment);
    found[name] = fromFile ? fileText(text, `${at}.${key}`) : text;
  }
  return found;
}

/** A text, or a variable of the runner whose value it is. Only one that no agent and no child process ever gets. */
function givenIn(value: unknown, at: string, environment: Environment): string {
  if (typeof value === 'string' && value !== '') return value;
  const { fromRunner } = isObject(value) ? value : {};
  if (typeof fromRunner !== 'string' || Object.keys(value as object).length !== 1)
    throw new Error(`${at}: expected a text, or {"fromRunner": "MUSTER_…"} for a variable of the runner`);
  if (!isRunnerSecret(fromRunner, {}))
    throw new Error(
      `${at}.fromRunner: agents may be given the variable ${fromRunner}; use one whose name begins with MUSTER_`,
    );
  const text = environment[fromRunner];
  if (!text) throw new Error(`${at}.fromRunner: the runner has no variable ${fromRunner}`);
  return text;
}

function fileText(file: string, at: string): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw new Error(`${at}: can't read ${file}: ${(error as Error).message}`);
  }
  if (text === '') throw new Error(`${at}: ${file} is empty`);
  return text;
}

const shown = (value: unknown): string =>
  typeof value === 'string' ? `"${value.slice(0, 80)}"` : value === undefined ? 'nothing' : typeof value;
