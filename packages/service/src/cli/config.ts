import { resolve } from 'node:path';
import { backendOfModel, limits, modelExpected } from '@muster/sdk/contract';
import { type KeyParts, parseKey } from '../lib/token.ts';

/** What the environment says. One schema; every variable is listed in docs/operations.md. */
export interface Config {
  readonly host: string;
  readonly port: number;
  readonly dataFolder: string;
  readonly publicUrl: string | null;
  readonly databaseUrl: string | null;
  readonly secret: string | null;
  readonly bootstrap: { readonly org: string; readonly account: string; readonly key: KeyParts | null };
  readonly defaultModel: string;
  readonly runner: boolean;
  readonly rehearsalMs: number;
  readonly leaseMs: number;
  readonly rateLimit: number;
  readonly logLevel: string;
}

const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

export function readConfig(env: NodeJS.ProcessEnv): Config {
  const number = (name: string, fallback: number, min: number, max: number): number => {
    const value = env[name] === undefined || env[name] === '' ? fallback : Number(env[name]);
    if (!Number.isFinite(value) || value < min || value > max) {
      throw new ConfigError(`${name} must be a number from ${min} to ${max}; it is "${env[name]}"`);
    }
    return value;
  };
  const defaultModel = env.MUSTER_DEFAULT_MODEL || defaultModelFor(env);
  if (!backendOfModel(defaultModel)) throw new ConfigError(`MUSTER_DEFAULT_MODEL must be ${modelExpected}`);
  if (env.MUSTER_SECRET && env.MUSTER_SECRET.length < 32) {
    throw new ConfigError('MUSTER_SECRET must have at least 32 characters');
  }
  if (env.MUSTER_LOG && !levels.includes(env.MUSTER_LOG)) {
    throw new ConfigError(`MUSTER_LOG must be one of ${levels.join(', ')}`);
  }
  return {
    host: env.MUSTER_HOST || '127.0.0.1',
    port: number('MUSTER_PORT', 8420, 0, 65_535),
    dataFolder: resolve(env.MUSTER_DATA || '.muster'),
    publicUrl: env.MUSTER_PUBLIC_URL ? env.MUSTER_PUBLIC_URL.replace(/\/+$/, '') : null,
    databaseUrl: env.DATABASE_URL || null,
    secret: env.MUSTER_SECRET || null,
    bootstrap: {
      org: env.MUSTER_BOOTSTRAP_ORG || 'local',
      account: env.MUSTER_BOOTSTRAP_ACCOUNT || 'admin',
      key: bootstrapKey(env.MUSTER_BOOTSTRAP_KEY),
    },
    defaultModel,
    runner: env.MUSTER_RUNNER !== 'off',
    rehearsalMs: number('MUSTER_REHEARSAL_MS', 2_000, 0, 3_600_000),
    leaseMs: number('MUSTER_LEASE_SECONDS', limits.leaseSeconds, 1, 3_600) * 1_000,
    rateLimit: number('MUSTER_RATE_LIMIT', 0, 0, 1e9),
    logLevel: env.MUSTER_LOG || (process.stderr.isTTY ? 'warn' : 'info'),
  };
}

/** The model of an agent for which nobody named one: of a backend that has a key, else one that is rehearsed. */
const defaultModelFor = (env: NodeJS.ProcessEnv): string =>
  env.OPENAI_API_KEY && !env.ANTHROPIC_API_KEY ? 'gpt-5.5' : 'claude-opus-4-8';

function bootstrapKey(text: string | undefined): KeyParts | null {
  if (!text) return null;
  const key = parseKey(text);
  if (!key || key.secret.length < 32) {
    throw new ConfigError(
      'MUSTER_BOOTSTRAP_KEY must be mst_<key_id>.<secret> with a secret of at least 32 characters',
    );
  }
  return key;
}
