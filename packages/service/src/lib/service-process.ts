import type { ChildProcess } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';

/** Says why a process of the service could not start. Sent to the process that started it. */
export interface StartFailure {
  readonly type: 'failed';
  readonly name: string;
  readonly message: string;
  readonly stack: string;
}

export function startFailure(error: unknown): StartFailure {
  const { name, message, stack = '' } = error as Error;
  return { type: 'failed', name, message, stack };
}

export const errorOfFailure = ({ name, message, stack }: StartFailure): Error =>
  Object.assign(new Error(message), { name, stack });

/** How long the last messages of a process that ended may take. */
const lastMessagesMs = 1_000;

/** Resolves with the reason when the process has ended, or could not be started, and its last messages have arrived. */
export async function endOf(child: ChildProcess): Promise<string> {
  // The channel may stay open after the exit: a process that the child was just starting has it.
  const disconnected = new Promise<void>((resolve) => child.once('disconnect', resolve));
  const reason = await new Promise<string>((resolve) => {
    child.on('error', ({ message }) => child.pid === undefined && resolve(message));
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  if (child.pid !== undefined) await Promise.race([disconnected, pause(lastMessagesMs)]);
  return reason;
}

const firstDelayMs = 100;
const longestDelayMs = 10_000;
/** A process that lived this long was healthy. */
const healthyMs = 60_000;

/** How long to wait before a process that died is started again: twice as long each time that it dies soon. */
export const restartDelayMs = (beforeMs: number, livedMs: number): number =>
  beforeMs === 0 || livedMs >= healthyMs ? firstDelayMs : Math.min(2 * beforeMs, longestDelayMs);

const runnerVariable = 'MUSTER_RUNNER_PROCESS';

/** What only the service may know: a process that reads what agents write does not get it. */
const serviceOnly =
  /^(DATABASE_URL|PGPASSWORD|MUSTER_(SECRET|BOOTSTRAP_KEY|API_KEY|DIRECT_URL|POOLER|DATABASE_PASSWORD))/;

/** The environment of the service's own runner. */
export const runnerEnvironment = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({
  ...Object.fromEntries(Object.entries(env).filter(([name]) => !serviceOnly.test(name))),
  [runnerVariable]: 'on',
});

/** Whether this process is the runner of a service, started by it. */
export const isRunnerProcess = (env: NodeJS.ProcessEnv): boolean =>
  process.send !== undefined && env[runnerVariable] !== undefined;

/** The process that was started as `muster serve` or `muster runner`: this one, or the one that started it. */
export const startedPid = (): number => (isRunnerProcess(process.env) ? process.ppid : process.pid);
