import { execFile, spawn } from 'node:child_process';
import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { limits } from '@muster/sdk/contract';
import type { RunnerLog } from '../../lib/log.ts';
import { isDiskFull, removeFolder } from '../disk.ts';
import { unlessAborted } from '../retry.ts';
import { folderVariable } from '../sandbox/processes.ts';
import { CopyBeingMade, type SetupListener } from './copy-being-made.ts';

/**
 * The results of set-up commands, each made once and copied for every agent that starts from it. A copy is made in its
 * own folder and is complete when its note is there, which is written last: whatever a killed runner left without one is
 * removed. Nobody writes to a complete copy, and agents do not see it. At any time a copy is being made or removed, by
 * one caller (`#exclusive`), or read by any number of them (`#readers`).
 *
 * Copying many files takes seconds. So after an agent has started, the files are copied for the next one (the *spare*),
 * which then only has to be renamed.
 */
export class PreparedCopies {
  readonly #dataFolder: string;
  readonly #folder: string;
  readonly #log: RunnerLog;
  readonly #stocking = new Set<string>();
  readonly #closing = new AbortController();
  readonly #making = new Map<string, CopyBeingMade>();
  readonly #exclusive = new Map<string, Promise<unknown>>();
  readonly #readers = new Map<string, number>();
  #key: Promise<Buffer> | undefined;

  constructor(dataFolder: string, log: RunnerLog) {
    this.#dataFolder = dataFolder;
    this.#folder = join(dataFolder, 'prepared');
    this.#log = log;
  }

  /** The folder of the copy that depends on these facts. Agents can see its name, which tells nothing about the facts. */
  async folderFor(facts: unknown): Promise<string> {
    this.#key ??= this.#readKey();
    const digest = createHmac('sha256', await this.#key)
      .update(JSON.stringify(facts))
      .digest('hex');
    return join(this.#folder, digest.slice(0, 32));
  }

  /**
   * Copies the folders `workspace` and `home` of a prepared copy into the folder of an agent, which has neither. `make`
   * makes a missing copy; several callers wait for the same one and get its output and its failure. If it is aborted, the
   * next caller tries again. `too deep`: what set-up made can't be copied, and the folders are empty.
   */
  async copyTo(
    agentFolder: string,
    copy: string,
    options: CopyOptions,
  ): Promise<'made' | 'found' | 'too deep'> {
    const { signal, listener } = options;
    for (let result: 'made' | 'found' = 'found'; ; ) {
      signal.throwIfAborted();
      const making = this.#making.get(copy) ?? (await this.#copyOrMake(agentFolder, copy, options));
      if (making === 'too deep') return making;
      if (making === 'copied') {
        void this.#stock(copy).catch(() => {});
        return result;
      }
      const followed = making.follow(listener);
      // The processes of the caller's own set-up end with it, and the caller waits for that.
      const isOwn = making.signal === signal;
      const outcome = await (isOwn ? followed : unlessAborted(signal, followed)).finally(() =>
        making.unfollow(listener),
      );
      if (outcome.type === 'failed') throw outcome.error;
      if (outcome.type === 'made') result = 'made';
    }
  }

  async #copyOrMake(
    agentFolder: string,
    copy: string,
    options: CopyOptions,
  ): Promise<CopyBeingMade | Copied> {
    const { signal } = options;
    for (;;) {
      await unlessAborted(signal, this.#exclusive.get(copy) ?? Promise.resolve());
      const copied = await this.#read(copy, (note) => this.#fill(copy, note, agentFolder, signal));
      if (copied) return copied;
      const making = this.#making.get(copy);
      if (making) return making;
      if (!this.#exclusive.has(copy)) return this.#make(copy, options);
    }
  }

  /** Takes the spare, or copies the files. */
  async #fill(copy: string, note: Note, agentFolder: string, signal: AbortSignal): Promise<Copied> {
    if (note.isTooDeep) return 'too deep';
    const now = new Date();
    await utimes(join(copy, noteFile), now, now);
    for (const name of folders) await removeFolder(join(agentFolder, name));
    const taken = join(copy, `${spare}-${randomUUID()}`);
    const hasSpare = await rename(join(copy, spare), taken).then(
      () => true,
      () => false,
    );
    if (hasSpare) {
      for (const name of folders) await rename(join(taken, name), join(agentFolder, name));
      await removeFolder(taken);
      return 'copied';
    }
    const copied = await this.#copyFiles(copy, agentFolder, signal);
    if (copied === 'copied') return copied;
    // Noted, so that the next agents need not try.
    await writeNote(copy, { ...note, isTooDeep: true });
    for (const name of folders) {
      await removeFolder(join(agentFolder, name));
      await mkdir(join(agentFolder, name), { mode: 0o700 });
    }
    return copied;
  }

  /** Makes the spare, unless there is one or the disk is almost full. */
  async #stock(copy: string): Promise<void> {
    if (this.#stocking.has(copy)) return;
    this.#stocking.add(copy);
    const unfinished = join(copy, `${spare}-${randomUUID()}`);
    try {
      if (await isDiskFull(this.#dataFolder)) return;
      await this.#read(copy, async () => {
        if (await stat(join(copy, spare)).catch(() => undefined)) return;
        await mkdir(unfinished, { mode: 0o700 });
        const copied = await this.#copyFiles(copy, unfinished, this.#closing.signal);
        if (copied === 'copied') await rename(unfinished, join(copy, spare));
      });
    } finally {
      await removeFolder(unfinished).catch(() => {});
      this.#stocking.delete(copy);
    }
  }

  /** In one command, which keeps hard links between the two. Where the file system can, the files share blocks. */
  async #copyFiles(copy: string, to: string, signal: AbortSignal): Promise<Copied> {
    const from = folders.map((name) => join(copy, name));
    const args = ['-dR', '--preserve=mode,timestamps,links', '--reflink=auto', '--', ...from, to];
    const env = { PATH: process.env.PATH, LC_ALL: 'C', [folderVariable]: this.#dataFolder };
    const child = spawn('cp', args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
    const kill = () => child.kill('SIGKILL');
    signal.addEventListener('abort', kill, { once: true });
    if (signal.aborted) kill();
    let errors = '';
    let isTooDeep = false;
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors += text;
      isTooDeep ||= errors.includes('File name too long');
      errors = errors.slice(-2000);
    });
    const [exitCode] = await once(child, 'close').finally(() => signal.removeEventListener('abort', kill));
    signal.throwIfAborted();
    if (isTooDeep) return 'too deep';
    if (exitCode !== 0)
      throw new Error(
        `the result of the setup could not be copied: ${errors.trim() || `cp ended with ${exitCode}`}`,
      );
    return 'copied';
  }

  /** Stops what is done for later. */
  close(): void {
    this.#closing.abort();
  }

  /** Removes what an earlier process of the runner did not complete. */
  async removeIncomplete(): Promise<void> {
    for (const name of await readdir(this.#folder).catch(() => [])) {
      const copy = join(this.#folder, name);
      if (name !== keyFile && !(await readNote(copy))) await removeFolder(copy).catch(() => {});
      for (const part of await readdir(copy).catch(() => []))
        if (part.startsWith(`${spare}-`)) await removeFolder(join(copy, part)).catch(() => {});
    }
  }

  /** Removes copies that were not used for some days; while the disk is almost full, all, least recently used first. */
  async sweep(keepDays: number, isDiskFull: () => Promise<boolean>): Promise<void> {
    const keptSinceMs = Date.now() - Math.max(1, keepDays) * dayMs;
    for (const { folder, usedMs } of await this.#complete()) {
      const isFull = usedMs >= keptSinceMs && (await isDiskFull());
      if (usedMs >= keptSinceMs && !isFull) return;
      if (isFull) this.#log.warn({ folder }, 'disk almost full: removing a prepared copy');
      await this.#remove(folder);
    }
  }

  /** What `use` returns; undefined if the copy is not complete. */
  async #read<T>(copy: string, use: (note: Note) => Promise<T>): Promise<T | undefined> {
    const change = (by: number) => this.#readers.set(copy, (this.#readers.get(copy) ?? 0) + by);
    if (this.#exclusive.has(copy)) return undefined;
    change(1);
    try {
      const note = await readNote(copy);
      return note && (await use(note));
    } finally {
      change(-1);
      if (this.#readers.get(copy) === 0) this.#readers.delete(copy);
    }
  }

  #make(copy: string, { group, make, signal }: CopyOptions): CopyBeingMade {
    const making = new CopyBeingMade(async (listener) => {
      // Another caller may have completed it while this one looked.
      if (await readNote(copy)) return;
      await removeFolder(copy);
      await mkdir(join(copy, 'workspace'), { recursive: true, mode: 0o700 });
      await mkdir(join(copy, 'home'), { mode: 0o700 });
      await make(copy, listener);
      // Set-up may have left what only root could copy or move.
      const own = folders.map((name) => join(copy, name));
      await run('chmod', ['-R', 'u+rX', '--', ...own]).catch(() => {});
      await run('chmod', ['u+rwx', '--', ...own]);
      await writeNote(copy, { group, boot: await bootId(), bytes: 2 * (await bytesOf(copy)) });
    }, signal);
    this.#making.set(copy, making);
    const ended = making.done.then(async ({ type }) => {
      this.#making.delete(copy);
      if (type !== 'made') await removeFolder(copy).catch(() => {});
      this.#exclusive.delete(copy);
      if (type === 'made') void this.#trim(copy, group).catch(() => {});
    });
    this.#exclusive.set(copy, ended);
    return making;
  }

  /** After a copy was made: removes the least recently used others, down to the limits. */
  async #trim(made: string, group: string): Promise<void> {
    const { preparedCopies, preparedCopiesPerWorkspace, preparedCopyBytes } = limits;
    let left = await this.#complete();
    const bytes = () => left.reduce((sum, copy) => sum + copy.bytes, 0);
    const isTooMuch = () => left.length > preparedCopies || bytes() > preparedCopyBytes;
    const inGroup = () => left.filter((copy) => copy.group === group);
    for (const copy of left.filter(({ folder }) => folder !== made)) {
      const isExtra = copy.group === group && inGroup().length > preparedCopiesPerWorkspace;
      if ((isExtra || isTooMuch()) && (await this.#remove(copy.folder)))
        left = left.filter(({ folder }) => folder !== copy.folder);
    }
  }

  /** Returns false if it is in use. */
  async #remove(copy: string): Promise<boolean> {
    if (this.#readers.has(copy) || this.#exclusive.has(copy)) return false;
    // Without its note it is incomplete, whatever happens to the rest.
    const removal = rm(join(copy, noteFile), { force: true }).then(() => removeFolder(copy));
    const settled = removal.catch(() => {});
    this.#exclusive.set(copy, settled);
    await settled;
    this.#exclusive.delete(copy);
    return true;
  }

  /** The complete copies, least recently used first. */
  async #complete(): Promise<(Note & { folder: string; usedMs: number })[]> {
    const names = await readdir(this.#folder).catch(() => []);
    const found = await Promise.all(
      names.map(async (name) => {
        const folder = join(this.#folder, name);
        const note = await readNote(folder);
        const used = note && (await stat(join(folder, noteFile)).catch(() => undefined));
        return note && used ? [{ ...note, folder, usedMs: used.mtimeMs }] : [];
      }),
    );
    return found.flat().sort((a, b) => a.usedMs - b.usedMs);
  }

  async #readKey(): Promise<Buffer> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const file = join(this.#folder, keyFile);
    const known = await readFile(file).catch(() => undefined);
    if (known?.length === keyBytes) return known;
    const key = randomBytes(keyBytes);
    await writeFile(`${file}.new`, key, { mode: 0o600 });
    await rename(`${file}.new`, file);
    return key;
  }
}

export interface CopyOptions {
  /** Of the workspace: only its newest copies are kept. */
  readonly group: string;
  /** Fills the empty folders `workspace` and `home` of a copy. No process may use them when it is done. */
  readonly make: (copy: string, listener: SetupListener) => Promise<void>;
  readonly listener: SetupListener;
  /** Of the caller. `make` ends with it too. */
  readonly signal: AbortSignal;
}

interface Note {
  readonly group: string;
  /** A machine that lost power may have lost parts of the copy, though it has the note. */
  readonly boot: string;
  /** With a spare. */
  readonly bytes: number;
  /** It contains paths that are too long for a program. */
  readonly isTooDeep?: boolean;
}

type Copied = 'copied' | 'too deep';

const dayMs = 24 * 3_600_000;
const noteFile = 'note.json';
const spare = 'spare';
const folders = ['workspace', 'home'] as const;
const keyFile = 'key';
const keyBytes = 32;
const run = promisify(execFile);

async function readNote(copy: string): Promise<Note | undefined> {
  try {
    const note = JSON.parse(await readFile(join(copy, noteFile), 'utf8')) as Note;
    return note.boot === (await bootId()) ? note : undefined;
  } catch {
    return undefined;
  }
}

async function writeNote(copy: string, note: Note): Promise<void> {
  const file = join(copy, `${noteFile}-${randomUUID()}`);
  await writeFile(file, JSON.stringify(note));
  await rename(file, join(copy, noteFile));
}

const bootId = (): Promise<string> => readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');

async function bytesOf(copy: string): Promise<number> {
  const { stdout } = await run('du', ['-sk', '--', copy]).catch(() => ({ stdout: '' }));
  return Number.parseInt(stdout, 10) * 1024 || 0;
}
