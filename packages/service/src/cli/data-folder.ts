import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Files of the data folder that are for the owner's eyes only. */
export const keyFile = (folder: string): string => join(folder, 'admin.key');

/** The secret that nodes share, where the environment gives none. */
export const secretFile = (folder: string): string => join(folder, 'secret');

/** Where the running service is; the command line finds it by this. */
export const addressFile = (folder: string): string => join(folder, 'address');

export function openDataFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
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
  writeFileSync(addressFile(folder), `${address}\n`);
}
