import { openLog } from '../lib/log.ts';
import { workerNumber } from '../lib/worker-channel.ts';
import { readConfig } from './config.ts';
import { openDataFolder } from './data-folder.ts';
import type { OutputFormat } from './output.ts';
import { RunnerProcess } from './runner-process.ts';
import { chooseConfiguredSandbox } from './sandbox.ts';
import { openStore } from './store.ts';
import { withSecretFiles } from './variables.ts';

/**
 * Runs the API, a runner in its own process, and, unless DATABASE_URL is set, PostgreSQL. With one worker the API is in this
 * process. With several, this process supervises them and serves no request.
 */
export async function serve(given: NodeJS.ProcessEnv, format?: OutputFormat): Promise<void> {
  const env = withSecretFiles(given);
  const config = readConfig(env);
  const worker = workerNumber(env);
  if (worker !== null)
    return (await import('./node.ts')).runWorker(config, openLog(config.logLevel, { worker }), env);
  const log = openLog(config.logLevel);
  openDataFolder(config.dataFolder, log);
  const opening = openStore(config, log, { waitMs: config.databaseWaitMs });
  // Reported where it is awaited.
  opening.catch(() => {});
  try {
    // While PostgreSQL starts: the sandbox is tried, and the rest of the program loaded.
    const sandbox = config.runner && (await chooseConfiguredSandbox(config.runner));
    const runner = sandbox && new RunnerProcess(given, log);
    const { startService } = await import('./service.ts');
    await startService({ config, env, log, store: await opening, runner, sandbox, format });
  } catch (error) {
    await opening.then((store) => store.close());
    throw error;
  }
}
