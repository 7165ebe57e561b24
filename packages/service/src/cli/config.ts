import { resolve } from 'node:path';
import { accountIn, backendOfModel, limits, modelExpected } from '@muster/sdk/contract';
import { type KeyParts, parseKey } from '../lib/token.ts';
import { ConfigError, choiceIn, httpUrlIn, logLevelIn, numberIn } from './environment.ts';
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
  readonly shutdownMs: number;
  readonly logLevel: string;
}

export function readConfig(env: NodeJS.ProcessEnv): Config {
  const number = (name: string, fallback: number, min: number, max: number) =>
    numberIn(env, name, fallback, min, max);
  const defaultModel = env.MUSTER_DEFAULT_MODEL || defaultModelFor(env);
  if (!backendOfModel(defaultModel))
    throw new ConfigError(`MUSTER_DEFAULT_MODEL must be ${modelExpected}; it is "${defaultModel}"`);
  if (env.MUSTER_SECRET && env.MUSTER_SECRET.length < 32) {
    throw new ConfigError('MUSTER_SECRET must have at least 32 characters');
  }
  tenantAllowIn(env);
  for (const name of ['ANTHROPIC_BASE_URL', 'OPENAI_BASE_URL']) httpUrlIn(env, name);
  const dataFolder = resolve(env.MUSTER_DATA || '.muster');
  // Read also where it is off: a variable that makes no sense is refused in any case.
  const runner = readRunnerConfig(env, dataFolder);
  return {
    host: env.MUSTER_HOST || '127.0.0.1',
    port: portIn(env),
    dataFolder,
    publicUrl: httpUrlIn(env, 'MUSTER_PUBLIC_URL'),
    databaseUrl: databaseUrlIn(env),
    secret: env.MUSTER_SECRET || null,
    bootstrap: {
      org: accountNameIn(env, 'MUSTER_BOOTSTRAP_ORG', 'local'),
      account: accountNameIn(env, 'MUSTER_BOOTSTRAP_ACCOUNT', 'admin'),
      key: bootstrapKey(env.MUSTER_BOOTSTRAP_KEY),
    },
    defaultModel,
    runner: choiceIn(env, 'MUSTER_RUNNER', ['on', 'off'], 'on') === 'off' ? null : runner,
    leaseMs: number('MUSTER_LEASE_SECONDS', limits.leaseSeconds, 1, 3_600) * 1_000,
    keepAliveMs: number('MUSTER_KEEP_ALIVE_SECONDS', limits.keepAliveSeconds, 1, 20) * 1_000,
    rateLimit: number('MUSTER_RATE_LIMIT', 0, 0, 1e9),
    // Below the 30 seconds after which Kubernetes kills: what is still open gets logged first.
    shutdownMs: number('MUSTER_SHUTDOWN_SECONDS', 25, 1, 3_600) * 1_000,
    logLevel: logLevelIn(env),
  };
}

function portIn(env: NodeJS.ProcessEnv): number {
  const port = numberIn(env, 'MUSTER_PORT', 8420, 0, 65_535);
  if (!Number.isInteger(port))
    throw new ConfigError(`MUSTER_PORT must be a whole number from 0 to 65535; it is "${env.MUSTER_PORT}"`);
  return port;
}

/** A URL of PostgreSQL, or the path of its socket. The value may hold a password and is not shown. */
function databaseUrlIn(env: NodeJS.ProcessEnv): string | null {
  const text = env.DATABASE_URL || null;
  const isKnown = text === null || /^(socket:)?\//.test(text) || /^postgres(ql)?:$/.test(schemeOf(text));
  if (!isKnown) throw new ConfigError('DATABASE_URL must be postgres://user:password@host:port/database');
  return text;
}

const schemeOf = (text: string): string => (URL.canParse(text) ? new URL(text).protocol : '');

function accountNameIn(env: NodeJS.ProcessEnv, name: string, fallback: string): string {
  const text = env[name] || fallback;
  if (text.length > accountIn.maxLength || !new RegExp(accountIn.pattern).test(text))
    throw new ConfigError(`${name} must be ${accountIn.expected}; it is "${text}"`);
  return text;
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
