import { isObject } from '../../lib/json.ts';
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
  document: Readonly<Record<string, unknown>>,
  runnerEnvironment: Environment,
  rights: TenantRights,
): Record<string, string> {
  const variables = document.variables ?? {};
  if (!isObject(variables)) throw new Error('variables: expected an object');
  const resolve = (name: string, value: unknown) => variableOf(name, value, runnerEnvironment, rights);
  return Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, resolve(name, value)]));
}

function variableOf(
  name: string,
  value: unknown,
  runnerEnvironment: Environment,
  rights: TenantRights,
): string {
  const field = `variables.${name}`;
  if (!namePattern.test(name))
    throw new Error(`${field}: expected a name of letters, digits and _ that does not start with a digit`);
  if (reservedName.test(name))
    throw new Error(`${field}: Muster sets this variable itself; choose another name`);
  if (typeof value === 'string') return checked(field, value);
  const from = isObject(value) ? value.fromRunner : undefined;
  if (typeof from !== 'string')
    throw new Error(`${field}: expected a string, or {"fromRunner": "NAME"} to take it from the runner`);
  if (isRunnerSecret(from))
    throw new Error(`${field}: ${from} belongs to the runner and is never given to an agent`);
  if (!rights.mayReadVariable(from))
    throw new Error(
      `${field}: this tenant may not use the runner's variable ${from}; ${rights.howToAllow('fromRunner', from)}`,
    );
  const given = runnerEnvironment[from];
  if (given === undefined)
    throw new Error(`${field}: the runner has no variable ${from}; set it in the environment of the runner`);
  return checked(field, given);
}

function checked(field: string, value: string): string {
  if (value.includes('\0')) throw new Error(`${field}: the value must not contain U+0000`);
  return value;
}
