import { lookup } from 'node:dns/promises';
import type { FaultCode } from '@muster/sdk/contract';
import { messageOf } from '../../lib/errors.ts';
import { notAsked } from '../workspace/git-credentials.ts';
import { FetchError } from '../workspace/prepare.ts';
import { RunFailure } from './run-end.ts';

export async function failingAs<T>(
  codeOf: (error: unknown) => FaultCode,
  what: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new RunFailure(codeOf(error), `${what}: ${messageOf(error)}`);
  }
}

export const isDiskFull = (error: unknown): boolean =>
  /no space left on device|disk quota exceeded|ENOSPC|EDQUOT/i.test(messageOf(error));

export const setupFault = (error: unknown): FaultCode => (isDiskFull(error) ? 'DISK_FULL' : 'SETUP_FAILED');

export const restoreFault = (error: unknown): FaultCode =>
  isDiskFull(error) ? 'DISK_FULL' : 'SESSION_NOT_OPENED';

/** Errors of git, curl and ssh when the host or the network is down; a refusal by the host has other texts. */
const networkErrors = new RegExp(
  [
    "(could not|can't be) resolve",
    'temporary failure in name resolution',
    '(failed|could not) (to )?connect',
    'connect to host',
    'connection (timed out|refused|reset|closed)',
    'operation timed out',
    'network is unreachable',
    'no route to host',
    'returned error: 5\\d\\d',
    'HTTP 5\\d\\d',
    'early EOF',
    'unexpected disconnect',
    'remote end hung up',
    'empty reply from server',
    'it took too long',
    notAsked,
  ].join('|'),
  'i',
);

/** A host name that does not exist is a mistake, not an outage: waiting does not help. */
export async function gitFailure(error: unknown): Promise<RunFailure> {
  const message = `The workspace could not be prepared: ${messageOf(error)}`;
  const code = gitFault(error);
  const host = error instanceof FetchError ? error.host : '';
  if (code !== 'GIT_UNREACHABLE' || host === '') return new RunFailure(code, message);
  const isUnknown = /could not resolve host|can't be resolved/i.test(message) && (await isUnknownName(host));
  return isUnknown
    ? new RunFailure('WORKSPACE_NOT_PREPARED', `${message}. The host name ${host} does not exist.`)
    : new RunFailure(code, message, `git:${host}`);
}

/** If name servers do not answer, it is not known. */
const isUnknownName = (host: string): Promise<boolean> =>
  lookup(host).then(
    () => false,
    (error: NodeJS.ErrnoException) => error.code === 'ENOTFOUND',
  );

export function gitFault(error: unknown): FaultCode {
  if (isDiskFull(error)) return 'DISK_FULL';
  return networkErrors.test(messageOf(error)) ? 'GIT_UNREACHABLE' : 'WORKSPACE_NOT_PREPARED';
}
