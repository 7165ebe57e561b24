import { resolve } from 'node:path';
import { backendOfModel, limits, modelExpected } from '@muster/sdk/contract';
import { type KeyParts, parseKey } from '../lib/token.ts';
import { ConfigError, logLevelIn, numberIn, withoutSlash } from './environment.ts';
import { type RunnerConfig, readRunnerConfig, tenantAllowIn } from './runner-config.ts';

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
  /** The runner inside; null when it is off. */
  readonly runner: RunnerConfig | null;
  readonly leaseMs: number;
  readonly keepAliveMs: number;
  readonly rateLimit: number;
  readonly logLevel: string;
}

export function readConfig(env: NodeJS.ProcessEnv): Config {
  const number = (name: string, fallback: number, min: number, max: number) =>
    numberIn(env, name, fallback, min, max);
  const defaultModel = env.MUSTER_DEFAULT_MODEL || defaultModelFor(env);
  if (!backendOfModel(defaultModel)) throw new ConfigError(`MUSTER_DEFAULT_MODEL must be ${modelExpected}`);
  if (env.MUSTER_SECRET && env.MUSTER_SECRET.length < 32) {
    throw new ConfigError('MUSTER_SECRET must have at least 32 characters');
  }
  tenantAllowIn(env);
  const dataFolder = resolve(env.MUSTER_DATA || '.muster');
  return {
    host: env.MUSTER_HOST || '127.0.0.1',
    port: number('MUSTER_PORT', 8420, 0, 65_535),
    dataFolder,
    publicUrl: env.MUSTER_PUBLIC_URL ? withoutSlash(env.MUSTER_PUBLIC_URL) : null,
    databaseUrl: env.DATABASE_URL || null,
    secret: env.MUSTER_SECRET || null,
    bootstrap: {
      org: env.MUSTER_BOOTSTRAP_ORG || 'local',
      account: env.MUSTER_BOOTSTRAP_ACCOUNT || 'admin',
      key: bootstrapKey(env.MUSTER_BOOTSTRAP_KEY),
    },
    defaultModel,
    runner: env.MUSTER_RUNNER === 'off' ? null : readRunnerConfig(env, dataFolder),
    leaseMs: number('MUSTER_LEASE_SECONDS', limits.leaseSeconds, 1, 3_600) * 1_000,
    keepAliveMs: number('MUSTER_KEEP_ALIVE_SECONDS', limits.keepAliveSeconds, 1, 20) * 1_000,
    rateLimit: number('MUSTER_RATE_LIMIT', 0, 0, 1e9),
    logLevel: logLevelIn(env),
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
