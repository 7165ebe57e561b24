import type { Log } from '../lib/log.ts';
import type { Abilities } from '../runner/harnesses.ts';
import { type Runner, startRunner } from '../runner/runner.ts';
import { chooseSandbox, type SandboxChoice } from '../runner/sandbox/probe.ts';
import { ConfigError } from './environment.ts';
import type { RunnerConfig } from './runner-config.ts';
import { lockRunnerFolder } from './runner-lock.ts';
import { version } from './version.ts';

/** Before anything is opened: a start that would run agents in the open by mistake is refused, and changes nothing. */
export const chooseConfiguredSandbox = (config: RunnerConfig): Promise<SandboxChoice> =>
  chooseSandbox(config.sandbox, config.sandboxReads).catch((error: Error) => {
    throw new ConfigError(error.message);
  });

/** A runner as the configuration wants it. */
export async function startConfiguredRunner(options: {
  readonly config: RunnerConfig;
  readonly sandbox: SandboxChoice['sandbox'];
  readonly abilities: Abilities;
  readonly environment: NodeJS.ProcessEnv;
  readonly url: string;
  readonly apiKey: string;
  readonly pool?: string;
  readonly log: Log;
}): Promise<Runner> {
  const { config, sandbox, abilities, environment, url, apiKey, pool, log } = options;
  await lockRunnerFolder(config.dataFolder);
  return startRunner({
    url,
    apiKey,
    ...(pool !== undefined && { pool }),
    name: config.name,
    dataFolder: config.dataFolder,
    rehearses: abilities.rehearses,
    harnesses: abilities.harnesses,
    providers: abilities.providers,
    prices: config.prices,
    stallMs: config.stallMs,
    limitWaitMs: config.limitWaitMs,
    keepFoldersDays: config.keepFoldersDays,
    checkpointMs: config.checkpointMs,
    tenantAllow: config.tenantAllow,
    sandbox,
    environment,
    turnMs: config.rehearsalMs,
    log,
    build: version,
  });
}
