import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { hasProviderKey } from '../runner/credentials.ts';
import { type Prices, readPrices } from '../runner/gateway/prices.ts';
import { type SandboxMode, sandboxModes } from '../runner/sandbox/probe.ts';
import { readTenantAllow, type TenantAllow, tenantAllowName } from '../runner/tenant-allow.ts';
import { ConfigError, numberIn } from './environment.ts';

/** What the environment says to a runner, inside `muster serve` or alone. */
export interface RunnerConfig {
  readonly name: string;
  readonly dataFolder: string;
  readonly sandbox: SandboxMode;
  /** Folders beyond the system's own that every sandbox may read. */
  readonly sandboxReads: readonly string[];
  readonly prices: Prices;
  readonly stallMs: number;
  readonly tenantAllow: TenantAllow;
  readonly rehearsalMs: number;
}

export function readRunnerConfig(env: NodeJS.ProcessEnv, dataFolder: string): RunnerConfig {
  return {
    name: env.MUSTER_RUNNER_NAME || nameFor(dataFolder),
    dataFolder,
    sandbox: sandboxModeIn(env),
    sandboxReads: (env.MUSTER_SANDBOX_READ ?? '').split(':').filter((path) => path.startsWith('/')),
    prices: pricesIn(env.MUSTER_PRICES),
    stallMs: numberIn(env, 'MUSTER_STALL_SECONDS', 300, 1, 3_600) * 1_000,
    tenantAllow: tenantAllowIn(env),
    rehearsalMs: numberIn(env, 'MUSTER_REHEARSAL_MS', 2_000, 0, 3_600_000),
  };
}

/** Closed by default: what a real model does is not trusted, while the rehearsal agent only does what it is told. */
export function sandboxModeIn(env: NodeJS.ProcessEnv): SandboxMode {
  const mode = env.MUSTER_SANDBOX || (hasProviderKey(env) ? 'required' : 'auto');
  if (!isSandboxMode(mode))
    throw new ConfigError(`MUSTER_SANDBOX must be one of ${sandboxModes.join(', ')}; it is "${mode}"`);
  return mode;
}

/** Read by every node, also one without a runner: what is wrong with it is said at the start. */
export function tenantAllowIn(env: NodeJS.ProcessEnv): TenantAllow {
  try {
    return readTenantAllow(env[tenantAllowName] || '{}');
  } catch (error) {
    throw new ConfigError(`${tenantAllowName}: ${(error as Error).message}`);
  }
}

/** Stable over restarts: agents live where their runner is. */
function nameFor(dataFolder: string): string {
  const place = createHash('sha256').update(dataFolder).digest('hex').slice(0, 8);
  return `${hostname()}-${place}`;
}

const isSandboxMode = (text: string): text is SandboxMode =>
  (sandboxModes as readonly string[]).includes(text);

function pricesIn(file: string | undefined): Prices {
  if (!file) return readPrices();
  try {
    return readPrices(JSON.parse(readFileSync(file, 'utf8')));
  } catch (error) {
    throw new ConfigError(`MUSTER_PRICES: ${file} can't be used: ${(error as Error).message}`);
  }
}
