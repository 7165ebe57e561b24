import type { Claim, EnvironmentDocument, GivenText } from '@muster/sdk/contract';
import type { TenantRights } from '../tenant-allow.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Whether a variable that is a switch is on. */
export const isOn = (value: string | undefined): boolean => /^(1|true|yes|on)$/i.test(value ?? '');

const namePattern = /^[A-Za-z_][A-Za-z0-9_]*$/;
const runnerSecret = /^(MUSTER_|ANTHROPIC_|OPENAI_|AZURE_OPENAI_|CLAUDE_|CODEX_|PG)|^DATABASE_URL$/;
const reservedName =
  /^(HOME|GIT_CONFIG_GLOBAL|GIT_CONFIG_NOSYSTEM|CODEX_HOME)$|^(MUSTER_|ANTHROPIC_|OPENAI_|CLAUDE_|CODEX_)|_PROXY$/i;

/** Variables of the runner that no agent and no child process gets. A cloud's are the runner's own if it gets models there. */
export const isRunnerSecret = (name: string, runner: Environment): boolean =>
  runnerSecret.test(name) ||
  (mayUse(runner, 'CLAUDE_CODE_USE_BEDROCK') && /^AWS_/.test(name)) ||
  (mayUse(runner, 'CLAUDE_CODE_USE_VERTEX') && /^(GOOGLE_|CLOUDSDK_|CLOUD_ML_)/.test(name));

/** Accounts in a file may be of either cloud. */
const mayUse = (runner: Environment, cloud: string): boolean =>
  isOn(runner[cloud]) || Boolean(runner.MUSTER_ACCOUNTS);

/** What the processes of an agent get, and which of it came from a secret or from the runner. */
export interface ResolvedVariables {
  readonly variables: Readonly<Record<string, string>>;
  /** To be masked in what the run reports. */
  readonly secretValues: readonly string[];
}

export interface VariableSources {
  /** The runner's own environment. */
  readonly runner: Environment;
  readonly rights: TenantRights;
  /** Of the claim; an older service sends none. */
  readonly secrets: readonly Pick<Claim['secrets'][number], 'name' | 'value' | 'problem'>[] | undefined;
}

/**
 * The variables that an environment resource gives to the agent's processes. It names secrets instead of containing
 * them: their values come with the claim, or from the runner's own environment. Throws an error that names the variable.
 */
export function environmentOf(
  { variables }: EnvironmentDocument,
  sources: VariableSources,
): ResolvedVariables {
  const resolved: Record<string, string> = {};
  const secretValues = new Set<string>();
  for (const [name, variable] of Object.entries(variables ?? {})) {
    const value = variableOf(name, variable, sources);
    resolved[name] = value;
    if (typeof variable !== 'string') secretValues.add(value);
  }
  return { variables: resolved, secretValues: [...secretValues] };
}

function variableOf(name: string, value: GivenText, sources: VariableSources): string {
  const field = `variables.${name}`;
  if (!namePattern.test(name))
    throw new Error(`${field}: expected a name of letters, digits and _ that does not start with a digit`);
  if (reservedName.test(name))
    throw new Error(`${field}: Muster sets this variable itself; choose another name`);
  return givenText(field, value, sources);
}

/** The text that a field gives, or names the source of. Throws an error that names the field. */
export function givenText(field: string, value: GivenText, sources: VariableSources): string {
  if (typeof value === 'string') return value;
  if ('fromSecret' in value && 'fromRunner' in value)
    throw new Error(`${field}: expected fromSecret or fromRunner, got both`);
  return 'fromSecret' in value
    ? fromSecret(field, value.fromSecret, sources)
    : fromRunner(field, value.fromRunner, sources);
}

function fromSecret(field: string, name: string, { secrets = [] }: VariableSources): string {
  const secret = secrets.find((one) => one.name === name);
  if (!secret) throw new Error(`${field}: the service sent no secret "${name}"; upgrade the service`);
  if (secret.problem) throw new Error(`${field}: ${secret.problem}`);
  return secret.value;
}

function fromRunner(field: string, name: string, { runner, rights }: VariableSources): string {
  if (isRunnerSecret(name, runner))
    throw new Error(`${field}: ${name} belongs to the runner and is never given to an agent`);
  if (!rights.mayReadVariable(name))
    throw new Error(
      `${field}: this tenant may not use the runner's variable ${name}; ${rights.howToAllow('fromRunner', name)}`,
    );
  const given = runner[name];
  if (given === undefined)
    throw new Error(`${field}: the runner has no variable ${name}; set it in the environment of the runner`);
  return given;
}
