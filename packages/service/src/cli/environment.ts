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
    throw new ConfigError(`MUSTER_LOG must be one of ${levels.join(', ')}`);
  }
  return env.MUSTER_LOG || (process.stderr.isTTY ? 'warn' : 'info');
}

/** Paths are put behind an address: it ends without a slash of its own. */
export const withoutSlash = (url: string): string => url.replace(/\/+$/, '');
