import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from '../lib/log.ts';
import { isRunning, type ProcessId, processId } from '../runner/sandbox/proc.ts';
import { addressFile, keyFile } from './connection.ts';
import { ConfigError } from './variables.ts';

export const secretFile = (folder: string): string => join(folder, 'secret');

/**
 * Makes the data folder private: it holds keys, secrets and the work of agents. A folder that was created by hand or
 * restored from a backup is often readable by others. A folder of another user is refused, because its owner could make
 * it readable again.
 */
export function openDataFolder(folder: string, log: Log): void {
  const { uid, mode } = makeFolder(folder);
  const ownUid = process.getuid?.() ?? uid;
  if (uid !== ownUid)
    throw new ConfigError(
      `the data folder ${folder} belongs to uid ${uid}, and this process runs as uid ${ownUid}: change its owner, or choose another folder (MUSTER_DATA)`,
    );
  fixMode(folder, mode, 0o700, log);
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const file = join(folder, entry.name);
    if (entry.isFile()) fixMode(file, lstatSync(file).mode, 0o600, log);
  }
}

function makeFolder(folder: string) {
  try {
    makeWithParents(folder);
    accessSync(folder, constants.W_OK);
    const found = statSync(folder);
    if (!found.isDirectory()) throw new Error('it is not a folder');
    return found;
  } catch (error) {
    throw new ConfigError(`MUSTER_DATA: can't use the data folder ${folder}: ${(error as Error).message}`);
  }
}

/** Without `recursive`, which never returns below /proc: Node creates the parent again and again. */
function makeWithParents(folder: string): void {
  if (existsSync(folder)) return;
  makeWithParents(dirname(folder));
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

function fixMode(path: string, mode: number, allowed: number, log: Log): void {
  if ((mode & 0o077) === 0) return;
  chmodSync(path, allowed);
  const written = (bits: number): string => (bits & 0o777).toString(8);
  log.warn({ path, was: written(mode), now: written(allowed) }, 'data folder permissions fixed');
}

export function writeAdminKey(folder: string, key: string): void {
  writeFileSync(keyFile(folder), `${key}\n`, { mode: 0o600 });
}

/** The stored admin key, if there is one. It may be older than the database. */
export function readAdminKey(folder: string): string | null {
  try {
    return readFileSync(keyFile(folder), 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return null;
  }
}

export function writeAddress(folder: string, address: string): void {
  writeFileSync(addressFile(folder), `${address}\n`, { mode: 0o600 });
}

/** How long a runner whose service was killed may take to exit. */
const exitMs = 10_000;

/** Allows one runner per data folder: a second one would take the first for dead and delete the files of its runs. */
export async function lockRunnerFolder(folder: string): Promise<void> {
  const file = join(folder, 'runner.lock');
  const holder = readLock(file);
  const isHeld = async () => holder && holder.pid !== process.pid && (await isRunning(holder));
  for (const endMs = performance.now() + exitMs; (await isHeld()) && performance.now() < endMs; )
    await pause(20);
  if (holder && (await isHeld()))
    throw new ConfigError(
      `the data folder ${folder} is in use by the runner with process id ${holder.pid}; choose another folder (--data)`,
    );
  const own = await processId(process.pid);
  if (own) writeFileSync(file, JSON.stringify(own), { mode: 0o600 });
}

function readLock(file: string): ProcessId | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ProcessId;
  } catch {
    return undefined;
  }
}
