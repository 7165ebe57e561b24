import { type ChildProcess, fork } from 'node:child_process';
import type { Log } from '../lib/log.ts';
import {
  endOf,
  errorOfFailure,
  restartDelayMs,
  runnerEnvironment,
  type StartFailure,
} from '../lib/service-process.ts';
import type { RunnerOptions } from '../runner/runner.ts';

/** Sent as a message: arguments and variables of a process can be read by others. */
export type RunnerConnection = Pick<RunnerOptions, 'url' | 'apiKey' | 'sandbox'>;
export type ToRunner =
  | { readonly type: 'serve'; readonly connection: RunnerConnection }
  | { readonly type: 'drain' };
export type FromRunner = { readonly type: 'serving' } | StartFailure;

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
    this.#restart = setTimeout(() => this.#startAgain(connection), this.#restartDelayMs);
  }

  #startAgain(connection: RunnerConnection): void {
    try {
      this.#current = start(this.#env);
    } catch (error) {
      // The machine has no memory for another process.
      const failed = { startedMs: performance.now(), ended: Promise.resolve(error as Error) };
      this.#current = { ...this.#current, ...failed };
    }
    send(this.#current, { type: 'serve', connection });
    void this.#restartAfter(this.#current, connection);
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
