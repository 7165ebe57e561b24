import { hostname, userInfo } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { ConnectionError, MusterError, pollLogin, startLogin } from '@muster/sdk';
import { limits } from '@muster/sdk/contract';
import { version } from '../lib/version.ts';
import type { Invocation } from './command.ts';
import { CommandError, exitCodes } from './errors.ts';
import { openInBrowser } from './open-browser.ts';

/** Signs in with a code that a person approves in a browser. Returns the key. */
export async function keyByDevice(
  url: string,
  { output, signal }: Pick<Invocation, 'output' | 'signal'>,
  opensBrowser: boolean,
): Promise<string> {
  const started = await startLogin(url, clientName(), { signal }).catch(explainOldService(url));
  const { deviceCode, userCode, verificationUrl, expiresAt } = started;
  const page = `${verificationUrl}#${userCode}`;
  output.note(
    `Open ${page}\nand approve the code ${userCode}. It expires in ${limits.loginMinutes} minutes.`,
  );
  if (opensBrowser && output.isTerminal) openInBrowser(page);
  const endMs = Date.parse(expiresAt);
  let { intervalSeconds } = started;
  do {
    await pause(intervalSeconds * 1_000, undefined, { signal });
    const polled = await pollLogin(url, deviceCode, { signal }).catch(ignoreOutage);
    if (polled?.state === 'GRANTED') return polled.apiKey;
    if (polled?.state === 'DENIED')
      throw new CommandError('the sign-in was denied on the page', exitCodes.denied);
    if (polled?.state === 'EXPIRED') break;
    intervalSeconds = polled?.intervalSeconds ?? intervalSeconds;
  } while (Date.now() < endMs);
  throw new CommandError('nobody approved the code in time; run muster login again', exitCodes.denied);
}

/** What the person reads who approves: they recognize their own machine. */
function clientName(): string {
  const user = userName();
  return `muster ${version} on ${hostname()}${user ? ` (${user})` : ''}`.slice(0, limits.loginClientLength);
}

/** The user of a container may have no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return '';
  }
}

const explainOldService =
  (url: string) =>
  (error: unknown): never => {
    const isOld =
      error instanceof MusterError && /UNAUTHENTICATED|NOT_FOUND|UNIMPLEMENTED/.test(error.status);
    throw isOld
      ? new CommandError(
          `the service at ${url} is older than this sign-in; use --key-stdin`,
          exitCodes.failed,
        )
      : error;
  };

/** The service may be restarted while a person reads the page. */
function ignoreOutage(error: unknown): undefined {
  if (error instanceof ConnectionError || (error instanceof MusterError && error.status === 'UNAVAILABLE'))
    return;
  throw error;
}
