import { execFile } from 'node:child_process';
import type { Log } from '../lib/log.ts';

/**
 * Tells systemd about this process (`Type=notify`). Node can't open the datagram socket of systemd, so the program
 * `systemd-notify` sends each message. The sender is then a child process: units need `NotifyAccess=all`.
 */
function notify(env: NodeJS.ProcessEnv, log: Log, ...messages: string[]): void {
  if (!env.NOTIFY_SOCKET) return;
  execFile('systemd-notify', messages, (error) => {
    if (error) log.warn({ err: error, messages }, 'systemd not notified');
  });
}

/** Also starts the messages of the watchdog, if the unit has `WatchdogSec`. */
export function notifyReady(env: NodeJS.ProcessEnv, log: Log): void {
  notify(env, log, 'READY=1');
  const watchdogMs = Number(env.WATCHDOG_USEC ?? 0) / 1_000;
  const isOurs = !env.WATCHDOG_PID || Number(env.WATCHDOG_PID) === process.pid;
  if (watchdogMs > 0 && isOurs) setInterval(() => notify(env, log, 'WATCHDOG=1'), watchdogMs / 2).unref();
}

export const notifyStopping = (env: NodeJS.ProcessEnv, log: Log): void => notify(env, log, 'STOPPING=1');
