import type { FaultCode } from '@muster/sdk/contract';
import { messageOf } from '../lib/message-of.ts';

const diskWords = /no space left on device|disk quota exceeded|ENOSPC|EDQUOT/i;

/** How git, curl and ssh say that the host or the way to it is down; a host that answers "no" says something else. */
const networkWords = new RegExp(
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
  ].join('|'),
  'i',
);

export const isDiskFull = (error: unknown): boolean => diskWords.test(messageOf(error));

/** The code of an error of git: a fault that passes where its words say so. */
export function gitFault(error: unknown): FaultCode {
  if (isDiskFull(error)) return 'DISK_FULL';
  return networkWords.test(messageOf(error)) ? 'GIT_UNREACHABLE' : 'WORKSPACE_NOT_PREPARED';
}
