import type { Log } from '../lib/log.ts';
import type { Abilities } from '../runner/credentials.ts';
import { type Runner, startRunner } from '../runner/runner.ts';
import { chooseSandbox } from '../runner/sandbox/probe.ts';
import { ConfigError } from './environment.ts';
import type { RunnerConfig } from './runner-config.ts';
import { lockRunnerFolder } from './runner-lock.ts';
import { version } from './version.ts';

/** A runner as the configuration wants it, and what there is to say about it. */
export async function startConfiguredRunner(options: {
  readonly config: RunnerConfig;
  readonly abilities: Abilities;
  readonly environment: NodeJS.ProcessEnv;
  readonly url: string;
  readonly apiKey: string;
  readonly pool?: string;
  readonly log: Log;
}): Promise<{ readonly runner: Runner; readonly sandbox: string }> {
  const { config, abilities, environment, url, apiKey, pool, log } = options;
  await lockRunnerFolder(config.dataFolder);
  const { sandbox, note } = await chooseSandbox(config.sandbox, config.sandboxReads).catch((error: Error) => {
    throw new ConfigError(error.message);
  });
  const runner = startRunner({
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
    sandbox,
    environment,
    turnMs: config.rehearsalMs,
    log,
    build: version,
  });
  return { runner, sandbox: note };
}
