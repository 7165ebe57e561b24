import { resolve } from 'node:path';
import { MusterClient, MusterError } from '@muster/sdk';
import { openLog } from '../lib/log.ts';
import { openTracer } from '../lib/traces/open-tracer.ts';
import { version } from '../lib/version.ts';
import { checkAccounts } from '../runner/accounts/check-accounts.ts';
import { type Abilities, abilitiesOf } from '../runner/harnesses.ts';
import { Runner, type RunnerOptions } from '../runner/runner.ts';
import type { Flags } from './command.ts';
import { logLevelIn, type RunnerConfig, readRunnerConfig } from './config.ts';
import { checkLogin } from './connection.ts';
import { lockRunnerFolder, openDataFolder } from './data-folder.ts';
import { usageError } from './errors.ts';
import { durationMs } from './input.ts';
import { type OutputFormat, startOutput } from './output.ts';
import { chooseConfiguredSandbox } from './sandbox.ts';
import { notifyReady, notifyStopping } from './service-manager.ts';
import { ConfigError } from './variables.ts';

type RunnerFlags = Flags<'url' | 'key' | 'pool' | 'name' | 'data' | 'idleExit' | 'maxRuns'> & {
  readonly output?: OutputFormat;
};

/** A runner on its own machine, which reaches the service by its URL with a key of role `runner`. */
export async function runRunner(flags: RunnerFlags, env: NodeJS.ProcessEnv): Promise<void> {
  const url = flags.url || env.MUSTER_URL;
  const apiKey = flags.key || env.MUSTER_API_KEY;
  if (!url) throw new ConfigError('the URL of the service is missing: set --url or MUSTER_URL');
  if (!apiKey)
    throw new ConfigError('the API key is missing: set --key or MUSTER_API_KEY to a key of role runner');
  checkLogin({ url, apiKey }, flags.url ? '--url' : 'MUSTER_URL');
  const dataFolder = resolve(flags.data || env.MUSTER_DATA || '.muster-runner');
  const config = readRunnerConfig(
    { ...env, ...(flags.name && { MUSTER_RUNNER_NAME: flags.name }) },
    dataFolder,
  );
  const log = openLog(logLevelIn(env));
  const { sandbox, note } = await chooseConfiguredSandbox(config);
  await checkKey(url, apiKey);
  openDataFolder(dataFolder, log);
  const abilities = abilitiesOf(env, config.models, log);
  const runner = await startConfiguredRunner(config, abilities, {
    url,
    apiKey,
    pool: flags.pool,
    ...lifetimeIn(flags),
    sandbox,
    environment: env,
    log,
  });
  let isDraining = false;
  const shutDown = (): void => {
    if (isDraining) process.exit(1);
    isDraining = true;
    notifyStopping(env, log);
    void runner.drain();
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, shutDown);
  // Also without a signal: it was idle, has had its runs, or was drained by a request.
  void runner.ended.then(() => process.exit(0));
  await runner.registered.catch((error: Error) => {
    throw new ConfigError(error.message);
  });
  const { summary: backends } = abilities;
  const lines = [
    `Runner ${config.name} serves ${url}`,
    `  data      ${dataFolder}`,
    `  backends  ${backends.join(' · ')}`,
    `  sandbox   ${note}`,
  ];
  const data = { name: config.name, url, dataFolder, backends, sandbox: note };
  process.stdout.write(startOutput(flags.output, data, `${lines.join('\n')}\n`));
  notifyReady(env, log);
}

/** When it ends by itself. */
function lifetimeIn({ idleExit, maxRuns }: RunnerFlags): Pick<RunnerOptions, 'idleExitMs' | 'maxRuns'> {
  if (maxRuns !== undefined && !/^[1-9]\d{0,8}$/.test(maxRuns))
    throw usageError(`--max-runs: expected a whole number from 1 to 999999999; got "${maxRuns}"`);
  const idleExitMs = idleExit === undefined ? undefined : durationMs(idleExit);
  if (idleExitMs !== undefined && (idleExitMs < 1_000 || idleExitMs > maxIdleMs))
    throw usageError(`--idle-exit: expected a duration from 1s to 24d; got "${idleExit}"`);
  return { idleExitMs, maxRuns: maxRuns === undefined ? undefined : Number(maxRuns) };
}

/** Below what a timer can wait. */
const maxIdleMs = 24 * 86_400_000;

/** Fails immediately if the key can't work. If the service is unreachable, the runner keeps trying. */
async function checkKey(url: string, apiKey: string): Promise<void> {
  try {
    const { role } = await new MusterClient({ url, apiKey }).call('whoami', undefined);
    if (role !== 'runner')
      throw new ConfigError(`the API key has role ${role}; a runner needs a key of role runner`);
  } catch (error) {
    if (error instanceof MusterError && error.httpStatus === 401)
      throw new ConfigError(`the service at ${url} does not know this API key`);
    if (error instanceof ConfigError) throw error;
  }
}

export async function startConfiguredRunner(
  config: RunnerConfig,
  abilities: Abilities,
  connection: Pick<
    RunnerOptions,
    'url' | 'apiKey' | 'pool' | 'sandbox' | 'environment' | 'log' | 'idleExitMs' | 'maxRuns'
  >,
): Promise<Runner> {
  await lockRunnerFolder(config.dataFolder);
  const tracer = await openTracer(connection.environment, 'muster-runner', connection.log);
  const { rehearsalMs: turnMs } = config;
  const runner = new Runner({ ...config, ...abilities, ...connection, tracer, turnMs, build: version });
  runner.registered.then(() => checkAccounts(abilities.providers, connection.log)).catch(() => {});
  return runner;
}
