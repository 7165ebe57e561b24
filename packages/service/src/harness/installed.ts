import { accessSync, constants } from 'node:fs';
import { createRequire } from 'node:module';

/** A module as a file would find it; undefined where it is not installed. */
export function resolveFrom(place: string, name: string): string | undefined {
  try {
    return createRequire(place).resolve(name);
  } catch {
    return undefined;
  }
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
