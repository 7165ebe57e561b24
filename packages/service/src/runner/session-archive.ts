import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { limits } from '@muster/sdk/contract';

const mostBytes = limits.checkpointParts * limits.checkpointPartBytes;

import type { Processes } from '../harness/harness.ts';
import { heardOut } from '../harness/heard-out.ts';

/**
 * A session's files, packed and unpacked by processes of the agent's own: the folders are the agent's to change, and
 * a link that it leaves there leads no further than the agent itself may go.
 */

/** At most so many bytes; undefined when there is nothing to pack. */
export async function packSession(
  processes: Processes,
  patterns: readonly string[],
): Promise<Buffer | undefined> {
  // The patterns are the harness's own words; the shell spreads them, and one that matches nothing is left out.
  const script = `cd "$HOME" && set -- && for f in ${patterns.join(' ')}; do [ -e "$f" ] && set -- "$@" "$f"; done; [ $# -gt 0 ] && exec tar -czf - -- "$@"`;
  const chunks: Buffer[] = [];
  let bytes = 0;
  const packing = processes.start(['/bin/sh', '-c', script], { beforeDoor: true });
  packing.child.stdin.end();
  packing.child.stderr.resume();
  packing.child.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > mostBytes) void packing.kill();
    else chunks.push(chunk);
  });
  const { exitCode } = await heardOut(packing);
  if (bytes > mostBytes) throw new Error(`it is larger than ${mostBytes} bytes, the most that is kept`);
  if (bytes === 0) return undefined;
  if (exitCode !== 0) throw new Error(`tar ended with ${exitCode}`);
  return Buffer.concat(chunks);
}

export async function unpackSession(
  processes: Processes,
  archive: Buffer,
  signal: AbortSignal,
): Promise<void> {
  const unpacking = processes.start(['/bin/sh', '-c', 'cd "$HOME" && exec tar -xzf -'], { beforeDoor: true });
  const kill = () => void unpacking.kill();
  signal.addEventListener('abort', kill, { once: true });
  unpacking.child.stdout.resume();
  unpacking.child.stderr.resume();
  unpacking.child.stdin.on('error', () => {});
  unpacking.child.stdin.end(archive);
  const { exitCode } = await unpacking.exited;
  signal.removeEventListener('abort', kill);
  if (exitCode !== 0) throw new Error(`the saved session could not be unpacked: tar ended with ${exitCode}`);
}

/** Whether a file of one of the patterns is there; `*` stands for any part of one name. */
export async function hasSession(homeFolder: string, patterns: readonly string[]): Promise<boolean> {
  for (const pattern of patterns) if (await matches(homeFolder, pattern.split('/'))) return true;
  return false;
}

async function matches(folder: string, [first, ...rest]: readonly string[]): Promise<boolean> {
  if (first === undefined) return true;
  const names = first.includes('*') ? await namesLike(folder, first) : [first];
  for (const name of names) {
    const path = join(folder, name);
    const found = await lstat(path).catch(() => undefined);
    if (!found || (rest.length > 0 && !found.isDirectory())) continue;
    if (await matches(path, rest)) return true;
  }
  return false;
}

async function namesLike(folder: string, pattern: string): Promise<string[]> {
  const form = new RegExp(`^${pattern.split('*').map(escaped).join('.*')}$`);
  return (await readdir(folder).catch(() => [])).filter((name) => form.test(name));
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
