import { randomBytes } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../lib/log.ts';
import { ConfigError } from './environment.ts';

/** Files of the data folder that are for the owner's eyes only. */
export const keyFile = (folder: string): string => join(folder, 'admin.key');

/** The secret that nodes share, where the environment gives none. */
export const secretFile = (folder: string): string => join(folder, 'secret');

/** Where the running service is; the command line finds it by this. */
export const addressFile = (folder: string): string => join(folder, 'address');

/**
 * Makes the data folder private: it holds keys, secrets and the work of agents. A folder that was created by hand, or
 * restored from a backup, often lets the group or everyone in. A folder of another user can't be made private, because
 * its owner can undo that.
 */
export function openDataFolder(folder: string, log: Log): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = statSync(folder);
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

function fixMode(path: string, mode: number, allowed: number, log: Log): void {
  if ((mode & 0o077) === 0) return;
  chmodSync(path, allowed);
  const written = (bits: number): string => (bits & 0o777).toString(8);
  log.warn({ path, was: written(mode), now: written(allowed) }, 'data folder permissions fixed');
}

/** The secret that nodes share; made at the first start unless it is given. */
export function serviceSecret(folder: string, given: string | null): string {
  if (given) return given;
  const file = secretFile(folder);
  try {
    writeFileSync(file, randomBytes(48).toString('base64url'), { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  return readFileSync(file, 'utf8').trim();
}

export function keepKey(folder: string, key: string): void {
  writeFileSync(keyFile(folder), `${key}\n`, { mode: 0o600 });
}

/** The admin's key that was kept, if there is one; whether it still works is the store's to say. */
export function keptKey(folder: string): string | null {
  try {
    return readFileSync(keyFile(folder), 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return null;
  }
}

export function keepAddress(folder: string, address: string): void {
  writeFileSync(addressFile(folder), `${address}\n`, { mode: 0o600 });
}
