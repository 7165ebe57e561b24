import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { withoutSlash } from './connection.ts';

/** Reads variables of the environment. The errors name the variable, its value and what is accepted. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

export const unusable = (name: string, expected: string, value: string | undefined): ConfigError =>
  new ConfigError(`${name}: expected ${expected}; got "${value}"`);

export function numberIn(
  env: NodeJS.ProcessEnv,
  name: string,
  fallback: number,
  min: number,
  max: number,
): number {
  const value = env[name] ? Number(env[name]) : fallback;
  if (!Number.isFinite(value) || value < min || value > max)
    throw unusable(name, `a number from ${min} to ${max}`, env[name]);
  return value;
}

export function wholeNumberIn(
  env: NodeJS.ProcessEnv,
  name: string,
  fallback: number,
  min: number,
  max: number,
): number {
  const value = numberIn(env, name, fallback, min, max);
  if (!Number.isInteger(value)) throw unusable(name, `a whole number from ${min} to ${max}`, env[name]);
  return value;
}

/** From a number of MiB. */
export const bytesIn = (env: NodeJS.ProcessEnv, name: string, fallback: number): number =>
  Math.floor(numberIn(env, name, fallback / mebibyte, 1, 1e9) * mebibyte);

const mebibyte = 1024 * 1024;

export function choiceIn<const C extends string>(
  env: NodeJS.ProcessEnv,
  name: string,
  choices: readonly C[],
  fallback: C,
): C {
  const text = env[name] || fallback;
  const chosen = choices.find((choice) => choice === text);
  if (chosen === undefined) throw unusable(name, `one of ${choices.join(', ')}`, text);
  return chosen;
}

/** A URL without a slash at its end; null when the variable is not set. */
export function httpUrlIn(env: NodeJS.ProcessEnv, name: string): string | null {
  const text = env[name];
  if (!text) return null;
  const url = URL.canParse(text) ? new URL(text) : null;
  const isPlain = url?.search === '' && url.hash === '' && url.username === '' && url.password === '';
  if (!url || !isPlain || !/^https?:$/.test(url.protocol)) {
    const expected = 'an http or https URL without query, fragment or password';
    throw unusable(name, expected, url?.password ? url.host : text);
  }
  return withoutSlash(text);
}

/** Network addresses, and ranges of them. */
export function addressesIn(env: NodeJS.ProcessEnv, name: string): string[] {
  const texts = (env[name] ?? '').split(',').map((text) => text.trim());
  return texts.filter(Boolean).map((text) => {
    const [, address = '', bits = '0'] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
    const version = isIP(address);
    if (version === 0 || Number(bits) > (version === 4 ? 32 : 128))
      throw unusable(name, 'addresses such as 10.0.0.7 or 10.0.0.0/8, separated by commas', text);
    return text;
  });
}

/** Names the variable in the error. */
export function readOrExplain<T>(problem: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new ConfigError(`${problem}: ${(error as Error).message}`);
  }
}

/** Each may come from a file, whose path is in the variable `<name>_FILE`. */
export const secretVariables = [
  ...['MUSTER_SECRET', 'MUSTER_SECRET_PREVIOUS', 'MUSTER_BOOTSTRAP_KEY', 'MUSTER_API_KEY'],
  ...['DATABASE_URL', 'MUSTER_DIRECT_URL', 'MUSTER_SMTP_URL'],
  ...['ANTHROPIC_API_KEY', 'ANTHROPIC_AUTH_TOKEN', 'ANTHROPIC_CUSTOM_HEADERS', 'CLAUDE_CODE_OAUTH_TOKEN'],
  ...['OPENAI_API_KEY', 'AZURE_OPENAI_API_KEY', 'AWS_BEARER_TOKEN_BEDROCK'],
];

/** The `_FILE` variables that are set, with their paths. */
export const secretFilesIn = (env: NodeJS.ProcessEnv): Readonly<Record<string, string>> =>
  Object.fromEntries(
    secretVariables.flatMap((name) => {
      const file = env[`${name}_FILE`];
      return file ? [[`${name}_FILE`, file]] : [];
    }),
  );

/**
 * A copy of the environment with the values of these files. They are not added to the environment of this process,
 * which the processes that it starts would inherit.
 */
export function withSecretFiles(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const values = Object.entries(secretFilesIn(env)).map(([fileName, file]) => {
    const name = fileName.slice(0, -'_FILE'.length);
    if (env[name]) throw new ConfigError(`${name} and ${fileName} are both set: unset one of them`);
    const value = readOrExplain(`${fileName}: can't read ${file}`, () => readFileSync(file, 'utf8')).trim();
    if (value === '') throw new ConfigError(`${fileName}: ${file} is empty; expected the value of ${name}`);
    return [name, value];
  });
  return { ...env, ...Object.fromEntries(values) };
}
