import { existsSync } from 'node:fs';

/** The URL of a file of this package, whether this module is a source file, compiled or bundled. */
export const packageFile = (path: string): URL => new URL(path, root);

const root = rootAbove(new URL('.', import.meta.url));

function rootAbove(folder: URL): URL {
  return existsSync(new URL('package.json', folder)) ? folder : rootAbove(new URL('..', folder));
}
