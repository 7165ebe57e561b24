import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LocalRepository } from './git.ts';
import type { Mirror } from './mirror.ts';

/**
 * The objects of one push, apart from the mirror until the repository's host has accepted them. Its git commands read
 * both. A refused push is deleted with its folder: it takes no disk, whatever it held.
 */
export class Quarantine extends LocalRepository {
  readonly objectsFolder: string;
  readonly #mirror: Mirror;

  private constructor(mirror: Mirror, objectsFolder: string) {
    super(mirror.folder, { ...mirror.environment, GIT_OBJECT_DIRECTORY: objectsFolder });
    this.objectsFolder = objectsFolder;
    this.#mirror = mirror;
  }

  static async open(mirror: Mirror): Promise<Quarantine> {
    await mkdir(mirror.quarantineFolder, { recursive: true, mode: 0o700 });
    const folder = await mkdtemp(join(mirror.quarantineFolder, 'push-'));
    await mkdir(join(folder, 'info'));
    await writeFile(join(folder, 'info', 'alternates'), `${mirror.objectsFolder}\n`);
    return new Quarantine(mirror, folder);
  }

  /** Moves the objects into the mirror. An index makes its pack visible, so it comes after the pack. */
  async accept(): Promise<void> {
    for (const folder of await readdir(this.objectsFolder)) {
      if (!/^(pack|[0-9a-f]{2})$/.test(folder)) continue;
      const from = join(this.objectsFolder, folder);
      const to = join(this.#mirror.objectsFolder, folder);
      await mkdir(to, { recursive: true });
      const names = await readdir(from);
      const isIndex = (name: string) => Number(name.endsWith('.idx'));
      for (const name of names.sort((a, b) => isIndex(a) - isIndex(b)))
        await rename(join(from, name), join(to, name));
    }
  }

  async remove(): Promise<void> {
    await rm(this.objectsFolder, { recursive: true, force: true });
  }
}
