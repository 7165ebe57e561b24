import type { EnvironmentDocument } from '@muster/sdk/contract';
import type { TenantRights } from '../tenant-allow.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const namePattern = /^[A-Za-z_][A-Za-z0-9_]*$/;
const runnerSecret = /^(MUSTER_|ANTHROPIC_|OPENAI_|CLAUDE_|CODEX_|PG)|^DATABASE_URL$/;
const reservedName =
  /^(HOME|GIT_CONFIG_GLOBAL|GIT_CONFIG_NOSYSTEM|CODEX_HOME)$|^(MUSTER_|ANTHROPIC_|OPENAI_|CLAUDE_|CODEX_)|_PROXY$/i;

/** Variables of the runner that no agent and no child process gets. */
export const isRunnerSecret = (name: string): boolean => runnerSecret.test(name);

/**
 * The variables that an environment resource gives to the agent's processes. It names secrets instead of containing
 * them: their values come from the runner's own environment. Throws an error that names the variable.
 */
export function environmentOf(
  { variables }: EnvironmentDocument,
  runnerEnvironment: Environment,
  rights: TenantRights,
): Record<string, string> {
  const resolve = (name: string, value: Variable) => variableOf(name, value, runnerEnvironment, rights);
  return Object.fromEntries(
    Object.entries(variables ?? {}).map(([name, value]) => [name, resolve(name, value)]),
  );
}

type Variable = NonNullable<EnvironmentDocument['variables']>[string];

function variableOf(
  name: string,
  value: Variable,
  runnerEnvironment: Environment,
  rights: TenantRights,
): string {
  const field = `variables.${name}`;
  if (!namePattern.test(name))
    throw new Error(`${field}: expected a name of letters, digits and _ that does not start with a digit`);
  if (reservedName.test(name))
    throw new Error(`${field}: Muster sets this variable itself; choose another name`);
  if (typeof value === 'string') return value;
  const from = value.fromRunner;
  if (isRunnerSecret(from))
    throw new Error(`${field}: ${from} belongs to the runner and is never given to an agent`);
  if (!rights.mayReadVariable(from))
    throw new Error(
      `${field}: this tenant may not use the runner's variable ${from}; ${rights.howToAllow('fromRunner', from)}`,
    );
  const given = runnerEnvironment[from];
  if (given === undefined)
    throw new Error(`${field}: the runner has no variable ${from}; set it in the environment of the runner`);
  return given;
}
