/** One variable at a time, checked: what makes no sense stops the start with a line that says so. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

export function numberIn(
  env: NodeJS.ProcessEnv,
  name: string,
  fallback: number,
  min: number,
  max: number,
): number {
  const value = env[name] === undefined || env[name] === '' ? fallback : Number(env[name]);
  if (!Number.isFinite(value) || value < min || value > max) {
    throw new ConfigError(`${name} must be a number from ${min} to ${max}; it is "${env[name]}"`);
  }
  return value;
}

export function logLevelIn(env: NodeJS.ProcessEnv): string {
  if (env.MUSTER_LOG && !levels.includes(env.MUSTER_LOG)) {
    throw new ConfigError(`MUSTER_LOG must be one of ${levels.join(', ')}; it is "${env.MUSTER_LOG}"`);
  }
  return env.MUSTER_LOG || (process.stderr.isTTY ? 'warn' : 'info');
}

/** Paths are put behind an address: it ends without a slash of its own. */
export const withoutSlash = (url: string): string => url.replace(/\/+$/, '');

/** The address of an HTTP service, without a slash at its end; null when it is not set. */
export function httpUrlIn(env: NodeJS.ProcessEnv, name: string): string | null {
  const text = env[name];
  if (!text) return null;
  const url = URL.canParse(text) ? new URL(text) : null;
  const isPlain = url?.search === '' && url.hash === '' && url.username === '' && url.password === '';
  if (!url || !isPlain || !/^https?:$/.test(url.protocol))
    throw new ConfigError(
      `${name} must be an address such as https://muster.example.com, without a query, fragment or password; it is "${shown(text, url)}"`,
    );
  return withoutSlash(text);
}

/** Without the password that it may hold. */
const shown = (text: string, url: URL | null): string => (url?.password ? url.host : text);

export function choiceIn<const C extends string>(
  env: NodeJS.ProcessEnv,
  name: string,
  choices: readonly C[],
  fallback: C,
): C {
  const text = env[name] || fallback;
  const chosen = choices.find((choice) => choice === text);
  if (chosen === undefined)
    throw new ConfigError(`${name} must be one of ${choices.join(', ')}; it is "${text}"`);
  return chosen;
}
