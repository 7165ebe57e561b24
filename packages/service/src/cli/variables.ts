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
    const expected = 'a URL such as https://muster.example.com, without query, fragment or password';
    throw unusable(name, expected, url?.password ? url.host : text);
  }
  return withoutSlash(text);
}

/** Names the variable in the error. */
export function readOrExplain<T>(problem: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new ConfigError(`${problem}: ${(error as Error).message}`);
  }
}
