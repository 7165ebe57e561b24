import { openLog } from '../lib/log.ts';
import { startFailure } from '../lib/service-process.ts';
import { abilitiesOf } from '../runner/harnesses.ts';
import type { Runner } from '../runner/runner.ts';
import { readConfig } from './config.ts';
import { startConfiguredRunner } from './runner.ts';
import type { FromRunner, RunnerConnection, ToRunner } from './runner-process.ts';

/** The program of the process that a `RunnerProcess` starts. */
export function runOwnRunner(env: NodeJS.ProcessEnv): void {
  // A terminal sends them to the service too, which decides.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {});
  // Sandboxes end with this process. What agents left without one is killed at the next start.
  process.once('disconnect', () => process.exit(1));
  let starting: Promise<Runner> | undefined;
  process.on('message', async (message: ToRunner) => {
    if (message.type === 'serve') starting = startRunner(env, message.connection);
    else {
      await (await starting)?.drain();
      process.exit(0);
    }
  });
}

async function startRunner(env: NodeJS.ProcessEnv, connection: RunnerConnection): Promise<Runner> {
  try {
    const { models, logLevel, runner: config } = readConfig(env);
    if (!config) throw new Error('this service has no runner');
    const log = openLog(logLevel, { process: 'runner' });
    const options = { ...connection, environment: env, log };
    const runner = await startConfiguredRunner(config, abilitiesOf(env, models, log), options);
    process.send?.({ type: 'serving' } satisfies FromRunner);
    return runner;
  } catch (error) {
    return new Promise(() => {
      process.send?.(startFailure(error) satisfies FromRunner, () => process.exit(1));
    });
  }
}
