import { type ChildProcess, fork } from 'node:child_process';
import { type Log, openLog } from '../lib/log.ts';
import {
  endOf,
  errorOfFailure,
  restartDelayMs,
  runnerEnvironment,
  type StartFailure,
  startFailure,
} from '../lib/service-process.ts';
import { abilitiesOf } from '../runner/harnesses.ts';
import type { Runner, RunnerOptions } from '../runner/runner.ts';
import { readConfig } from './config.ts';
import { startConfiguredRunner } from './runner.ts';

/** Sent as a message: arguments and variables of a process can be read by others. */
type RunnerConnection = Pick<RunnerOptions, 'url' | 'apiKey' | 'sandbox'>;
type ToRunner =
  | { readonly type: 'serve'; readonly connection: RunnerConnection }
  | { readonly type: 'drain' };
type FromRunner = { readonly type: 'serving' } | StartFailure;

/**
 * The runner of `muster serve`, in a separate process: what agents write is never read on a thread that serves requests,
 * and an agent that exhausts the memory of its runner does not end the service. The process exits when its connection to
 * the service closes. When it dies, it is started again.
 */
export class RunnerProcess {
  readonly #env: NodeJS.ProcessEnv;
  readonly #log: Log;
  #current: Started;
  #restartDelayMs = 0;
  #restart: NodeJS.Timeout | undefined;
  #isClosing = false;

  /** Starts the process, which then waits: it loads its program while the service opens its database. */
  constructor(env: NodeJS.ProcessEnv, log: Log) {
    this.#env = runnerEnvironment(env);
    this.#log = log;
    this.#current = start(this.#env);
  }

  /** Resolves when the runner works for the service; fails if it can't start. */
  async serve(connection: RunnerConnection): Promise<void> {
    send(this.#current, { type: 'serve', connection });
    await this.#current.serving;
    void this.#restartAfter(this.#current, connection);
  }

  /** The runner stops claiming, lets its runs end for `MUSTER_DRAIN_SECONDS`, hands back the others and exits. */
  async drain(): Promise<void> {
    this.#isClosing = true;
    clearTimeout(this.#restart);
    send(this.#current, { type: 'drain' });
    await this.#current.ended;
  }

  async #restartAfter({ ended, startedMs }: Started, connection: RunnerConnection): Promise<void> {
    const { message } = await ended;
    if (this.#isClosing) return;
    this.#restartDelayMs = restartDelayMs(this.#restartDelayMs, performance.now() - startedMs);
    this.#log.error({ reason: message, restartMs: this.#restartDelayMs }, 'runner process died; restarting');
    this.#restart = setTimeout(() => {
      this.#current = start(this.#env);
      send(this.#current, { type: 'serve', connection });
      void this.#restartAfter(this.#current, connection);
    }, this.#restartDelayMs);
  }
}

interface Started {
  readonly child: ChildProcess;
  readonly startedMs: number;
  /** Fails when the process ends before. */
  readonly serving: Promise<void>;
  /** Why it ended. */
  readonly ended: Promise<Error>;
}

function start(env: NodeJS.ProcessEnv): Started {
  const child = fork(process.argv[1] ?? '', ['serve'], { env });
  let failure: Error | undefined;
  const ended = endOf(child).then((reason) => failure ?? new Error(`the runner process ended: ${reason}`));
  const serving = new Promise<void>((resolve, reject) => {
    child.on('message', (message: FromRunner) => {
      if (message.type === 'serving') resolve();
      else failure = errorOfFailure(message);
    });
    void ended.then(reject);
  });
  serving.catch(() => {});
  return { child, startedMs: performance.now(), serving, ended };
}

function send({ child }: Started, message: ToRunner): void {
  if (child.connected) child.send(message, () => {});
}

/** The program of that process. */
export function runRunnerProcess(env: NodeJS.ProcessEnv): void {
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
