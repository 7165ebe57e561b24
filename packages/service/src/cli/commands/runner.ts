import { resolve } from 'node:path';
import { MusterClient, MusterError } from '@muster/sdk';
import { openLog } from '../../lib/log.ts';
import { abilitiesOf } from '../../runner/harnesses.ts';
import { openDataFolder } from '../data-folder.ts';
import { ConfigError, logLevelIn } from '../environment.ts';
import { readRunnerConfig } from '../runner-config.ts';
import { chooseConfiguredSandbox, startConfiguredRunner } from '../start-runner.ts';

export interface RunnerFlags {
  readonly url?: string;
  readonly key?: string;
  readonly pool?: string;
  readonly name?: string;
  readonly data?: string;
}

const say = (line: string): void => void process.stdout.write(`${line}\n`);

/** A runner on a machine of its own: it reaches the service by its URL, with a token of the role `runner`. */
export async function run(flags: RunnerFlags, env: NodeJS.ProcessEnv): Promise<void> {
  const url = flags.url || env.MUSTER_URL;
  const apiKey = flags.key || env.MUSTER_API_KEY;
  if (!url) throw new ConfigError('say where the service is: --url or MUSTER_URL');
  if (!apiKey)
    throw new ConfigError('give the runner a key: --key or MUSTER_API_KEY (a token of the role runner)');
  const dataFolder = resolve(flags.data || env.MUSTER_DATA || '.muster-runner');
  const config = readRunnerConfig(
    { ...env, ...(flags.name && { MUSTER_RUNNER_NAME: flags.name }) },
    dataFolder,
  );
  const log = openLog(logLevelIn(env));
  const { sandbox, note } = await chooseConfiguredSandbox(config);
  await checkKey(url, apiKey);
  openDataFolder(dataFolder, log);
  const abilities = abilitiesOf(env);
  const runner = await startConfiguredRunner({
    config,
    sandbox,
    abilities,
    environment: env,
    url,
    apiKey,
    ...(flags.pool !== undefined && { pool: flags.pool }),
    log,
  });
  let isLeaving = false;
  const leave = (): void => {
    if (isLeaving) process.exit(1);
    isLeaving = true;
    void runner.drain().then(() => process.exit(0));
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, leave);
  await runner.registered.catch((error: Error) => {
    throw new ConfigError(error.message);
  });
  say(`The runner ${config.name} serves ${url}`);
  say(`  data      ${dataFolder}`);
  say(`  backends  ${abilities.summary.join(' · ')}`);
  say(`  sandbox   ${note}`);
}

/** A key that can't work is said at once; a service that is away is waited for like at any later time. */
async function checkKey(url: string, apiKey: string): Promise<void> {
  try {
    const { role } = await new MusterClient({ url, apiKey }).call('whoami', undefined);
    if (role !== 'runner')
      throw new ConfigError(`the key has the role ${role}; a runner needs one of the role runner`);
  } catch (error) {
    if (error instanceof MusterError && error.httpStatus === 401)
      throw new ConfigError(`the service at ${url} does not know this key`);
    if (error instanceof ConfigError) throw error;
  }
}
