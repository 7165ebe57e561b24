import { isObject } from '../../lib/json.ts';
import type { TenantRights } from '../tenant-allow.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const namePattern = /^[A-Za-z_][A-Za-z0-9_]*$/;
const runnerSecret = /^(MUSTER_|ANTHROPIC_|OPENAI_|CLAUDE_|CODEX_|PG)|^DATABASE_URL$/;
const ours =
  /^(HOME|GIT_CONFIG_GLOBAL|GIT_CONFIG_NOSYSTEM|CODEX_HOME)$|^(MUSTER_|ANTHROPIC_|OPENAI_|CLAUDE_|CODEX_)|_PROXY$/i;

/** Whether a variable of the runner is its own business: never an agent's, never a child process's. */
export const isRunnerSecret = (name: string): boolean => runnerSecret.test(name);

/**
 * The variables that an environment's document gives to the agent's processes. Secrets are named there, not written:
 * they come from the runner's own environment. Throws an error that names the variable.
 */
export function environmentOf(
  document: Readonly<Record<string, unknown>>,
  runnerEnvironment: Environment,
  rights: TenantRights,
): Record<string, string> {
  const variables = document.variables ?? {};
  if (!isObject(variables)) throw new Error('variables of the environment must be an object');
  return Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [
      name,
      variableOf(name, value, runnerEnvironment, rights),
    ]),
  );
}

function variableOf(
  name: string,
  value: unknown,
  runnerEnvironment: Environment,
  rights: TenantRights,
): string {
  const field = `variables.${name}`;
  if (!namePattern.test(name))
    throw new Error(`${field}: a name has letters, digits and _ only, and does not begin with a digit`);
  if (ours.test(name)) throw new Error(`${field}: Muster sets this variable itself; choose another name`);
  if (typeof value === 'string') return checked(field, value);
  const from = isObject(value) ? value.fromRunner : undefined;
  if (typeof from !== 'string')
    throw new Error(`${field} must be a string, or {"fromRunner": "NAME"} to take it from the runner`);
  if (isRunnerSecret(from))
    throw new Error(`${field}: ${from} is the runner's own and is never given to an agent`);
  if (!rights.mayReadVariable(from))
    throw new Error(
      `${field}: this tenant may not use the runner's variable ${from}; ${rights.advice('fromRunner', from)}`,
    );
  const given = runnerEnvironment[from];
  if (given === undefined)
    throw new Error(`${field}: the runner has no variable ${from}; set it where the runner is started`);
  return checked(field, given);
}

function checked(field: string, value: string): string {
  if (value.includes('\0')) throw new Error(`${field} must not contain the character U+0000`);
  return value;
}
