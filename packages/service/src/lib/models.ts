import { readFileSync } from 'node:fs';
import {
  backendFacts,
  backendOfModel,
  backends,
  type Infer,
  isRehearsalModel,
  type ModelProvider,
  modelProviders,
  type OwnModels,
  type Schema,
} from '@muster/sdk/contract';
import { isObject } from './json.ts';
import { validator } from './validator.ts';

/**
 * The model names that the operator adds in the file that `MUSTER_MODELS` names. A cloud's names of models and
 * deployments (`us.anthropic.…`) follow no pattern, so the table says which backend runs each and which account has it.
 */
const ownModel = {
  type: 'object',
  properties: {
    backend: { type: 'string', enum: backends },
    /** What the provider calls it. */
    name: { type: 'string', minLength: 1, maxLength: 256, pattern: '^[\\w.:@/-]+(\\[1m\\])?$' },
    provider: { type: 'string', enum: modelProviders },
    /** The model behind it, by the name that has a price. */
    model: { type: 'string', minLength: 1, maxLength: 256 },
  },
  required: ['backend', 'name', 'provider'],
  additionalProperties: false,
} as const satisfies Schema;

export type OwnModel = Infer<typeof ownModel>;
export type ModelTable = Readonly<Record<string, OwnModel>>;

const mostModels = 1_000;
const aliasPattern = /^[A-Za-z0-9][\w.:@/-]{0,127}$/;
export const modelsExample =
  '{"opus-eu": {"backend": "BACKEND_A", "name": "eu.anthropic.…", "provider": "bedrock"}}';
const violationIn = validator(ownModel);

/** Throws an error that names the field and what is accepted. */
export function readModels(file: string): ModelTable {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new Error(`must be a JSON file such as ${modelsExample}: ${(error as Error).message}`);
  }
  if (!isObject(value)) throw new Error(`must be a JSON object such as ${modelsExample}`);
  const entries = Object.entries(value);
  if (entries.length > mostModels)
    throw new Error(`must have at most ${mostModels} models; got ${entries.length}`);
  return Object.fromEntries(entries.map(([alias, given]) => [alias, checked(alias, given)]));
}

function checked(alias: string, given: unknown): OwnModel {
  const at = JSON.stringify(alias.slice(0, 128));
  if (!aliasPattern.test(alias))
    throw new Error(
      `${at}: a name must be 1 to 128 letters, digits and . _ : @ / -, the first of them a letter or digit`,
    );
  if (isRehearsalModel(alias)) throw new Error(`${at}: the name of the rehearsal agent can't be used`);
  const fields = Object.keys(ownModel.properties);
  const unknown = isObject(given) ? Object.keys(given).find((name) => !fields.includes(name)) : undefined;
  if (unknown !== undefined)
    throw new Error(`${at}: unknown field "${unknown}"; must be one of ${fields.join(', ')}`);
  const violation = violationIn(given);
  if (violation)
    throw new Error(`${[at, violation.field].filter(Boolean).join('.')} ${violation.description}`);
  const { backend, provider } = given as OwnModel;
  const { providers: allowed, title } = backendFacts[backend];
  if (!allowed.includes(provider))
    throw new Error(`${at}.provider must be one of ${allowed.join(', ')} for ${title}; got "${provider}"`);
  const usual = backendOfModel(alias);
  if (usual && usual !== backend)
    throw new Error(
      `${at}.backend must be ${usual} (${backendFacts[usual].title}), which has models of this name; got "${backend}"`,
    );
  return given as OwnModel;
}

export const backendsOf = (models: ModelTable): OwnModels =>
  Object.fromEntries(Object.entries(models).map(([alias, { backend }]) => [alias, backend]));

/** A model as the provider names it. */
export interface ProviderModel {
  readonly provider: ModelProvider;
  readonly name: string;
  /** By whose price it is charged; undefined: by its own name. */
  readonly pricedAs?: string | undefined;
  /** An entry of the table. */
  readonly isOwn?: true;
}

/** What a model of an agent's settings is: an entry of the table, else the name itself at the backend's own provider. */
export function providerModel(model: string, models: ModelTable, usual: ModelProvider): ProviderModel {
  const own = Object.hasOwn(models, model) ? models[model] : undefined;
  if (!own) return { provider: usual, name: model };
  return { provider: own.provider, name: own.name, pricedAs: own.model, isOwn: true };
}

/** What metrics name a model by: few values, whatever a cloud or an agent calls it. The family of a family is the same. */
export function modelFamily(model: string): string {
  const [family] =
    /claude-(?:opus|sonnet|haiku|fable|mythos)|gpt-\d|rehearsal/.exec(model.slice(0, 256)) ?? [];
  return family ?? 'other';
}
