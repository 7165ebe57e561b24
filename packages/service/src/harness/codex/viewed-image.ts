import { imageTypeOf, limits } from '@muster/sdk/contract';
import { isObject } from '../../lib/json.ts';
import { within } from '../agent-process.ts';
import type { AppServer } from './app-server.ts';

const { attachmentBytes } = limits;
const base64Length = Math.ceil(attachmentBytes / 3) * 4;
const readMs = 10_000;

/** Prints nothing if it is not a file, or too large. A pipe in its place ends with the time limit. */
const script = `[ -f "$1" ] && [ "$(wc -c < "$1")" -le ${attachmentBytes} ] && head -c ${attachmentBytes} < "$1" | base64 | tr -d '\\n'`;

/**
 * An image that the agent viewed, as base64; empty if it can't be read. Codex runs the command that reads it: in the
 * agent's sandbox, which has folders that no other process sees, and with the rights of the agent, whatever the path is.
 * What it prints is not trusted.
 */
export async function viewedImage(server: AppServer, path: string): Promise<string> {
  const command = ['/bin/sh', '-c', script, 'sh', path];
  const limited = { outputBytesCap: base64Length, timeoutMs: readMs };
  const read = server.request('command/exec', { command, ...limited }).catch(() => undefined);
  const reply = await within(readMs, read);
  const stdout = isObject(reply) ? reply.stdout : undefined;
  if (typeof stdout !== 'string' || stdout.length > base64Length) return '';
  return imageTypeOf(Buffer.from(stdout.slice(0, 64), 'base64')) ? stdout : '';
}
