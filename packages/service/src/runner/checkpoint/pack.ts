import { readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { limits } from '@muster/sdk/contract';
import type { Diff, Harness, Processes } from '../../harness/harness.ts';
import { packageFile } from '../../lib/package-file.ts';
import { withScript } from '../workspace/agent-commands.ts';
import { storedDiff } from '../workspace/changes.ts';
import type { PreparedRepository } from '../workspace/prepare.ts';

const script = readFileSync(packageFile('scripts/pack-checkpoint.sh'), 'utf8');

/** Git needs seconds for the largest checkpoint, but the agent may have replaced it. */
const packTimeoutMs = 5 * 60_000;
export const maxCheckpointBytes = limits.checkpointParts * limits.checkpointPartBytes;
const maxNotes = 20;
const maxNoteLength = 600;
/** In addition to one diff per repository. */
const maxLines = 50;

export interface PackOptions {
  readonly processes: Processes;
  readonly repos: readonly PreparedRepository[];
  /** Of the session's files, relative to the agent's home. */
  readonly patterns: readonly string[];
  /** Of the last checkpoint; empty to pack in any case. */
  readonly fingerprint: string;
  /** Of the archive; by default what the service accepts. */
  readonly maxBytes?: number;
  readonly signal: AbortSignal;
  /** Called before the archive. */
  readonly onCounts?: (counts: UnpushedCounts) => void;
  /** Called with each part of the archive, in order, one at a time. */
  readonly onPart: (part: Buffer, index: number) => Promise<void>;
}

export interface UnpushedCounts {
  readonly commits: number;
  readonly files: number;
}

export interface Packed extends UnpushedCounts {
  readonly diffs: readonly Diff[];
  /** The work that is not in the archive. */
  readonly notes: readonly string[];
  /** What is never in an archive, such as ignored files; empty if it is the same as in the last one. */
  readonly skipped: readonly string[];
  /** Empty if the work is too large, so that no archive was made. */
  readonly fingerprint: string;
  /** The size of the archive, also of one that is too large. */
  readonly bytes: number;
  readonly parts: number;
}

/** The session's name becomes part of a shell pattern, so it may only have letters, digits and dashes. */
export const sessionPatterns = (harness: Harness, session: string): readonly string[] =>
  /^[\w-]+$/.test(session) ? harness.sessionFiles(session) : [];

/** Packs an agent's session and unpushed work with a process of the agent. Undefined: nothing has changed. */
export async function pack(options: PackOptions): Promise<Packed | undefined> {
  const { processes, repos, patterns, fingerprint, maxBytes = maxCheckpointBytes, signal } = options;
  const sizes = [String(maxBytes), String(4 * limits.diffLength)];
  const args = [fingerprint, ...sizes, patterns.join(' '), findExclusions(repos)];
  const repoArgs = repos.flatMap((repo) => [repoKey(repo), repo.path, repo.baseBranch || 'HEAD']);
  const scriptOptions = { signal, timeoutMs: packTimeoutMs, gateway: 'never' } as const;
  return withScript(processes, [script, ...args, ...repoArgs], scriptOptions, ({ child }) => {
    child.stdin.end();
    child.stderr.resume();
    return readPacked(new ByteReader(child.stdout), options);
  });
}

/** Reads the script's output. The agent can replace the programs that the script uses, so nothing in it is trusted. */
async function readPacked(
  output: ByteReader,
  { repos, onCounts, onPart }: PackOptions,
): Promise<Packed | undefined> {
  const found = { commits: 0, files: 0, fingerprint: '', bytes: 0, parts: 0 };
  const diffs: Diff[] = [];
  const texts = { note: [] as string[], skipped: [] as string[] };
  const { note: notes, skipped } = texts;
  for (let lines = repos.length + maxLines; lines > 0; lines--) {
    const line = await output.line();
    if (line === undefined) break;
    const [word = '', ...values] = line.split(' ');
    const count = numberOf(values.at(-1));
    switch (word) {
      case 'same':
        return undefined;
      case 'commits':
      case 'files':
        found[word] = count;
        break;
      case 'note':
      case 'skipped':
        if (texts[word].length < maxNotes) texts[word].push(values.join(' ').slice(0, maxNoteLength));
        break;
      case 'diff': {
        const text = (await output.bytes(Math.min(count, 4 * limits.diffLength))).toString();
        const repo = repos.find((each) => repoKey(each) === values.slice(0, -4).join(' '));
        const [files = 0, insertions = 0, deletions = 0] = values.slice(-4, -1).map(numberOf);
        if (!repo) break;
        const counts = { files, insertions, deletions };
        diffs.push({ repo: repo.shownUrl, workingTree: true, ...counts, text: storedDiff(text) });
        break;
      }
      case 'large':
        return { ...found, diffs, notes, skipped, bytes: count };
      case 'fingerprint':
        found.fingerprint = values[0] ?? '';
        break;
      case 'archive': {
        if (count === 0 || count > maxCheckpointBytes) throw notPacked();
        onCounts?.(found);
        let parts = 0;
        for (let left = count; left > 0; left -= limits.checkpointPartBytes)
          await onPart(await output.bytes(Math.min(left, limits.checkpointPartBytes)), parts++);
        return { ...found, diffs, notes, skipped, bytes: count, parts };
      }
    }
  }
  throw notPacked();
}

const notPacked = (): Error => new Error('the files could not be packed');

const numberOf = (text: string | undefined): number => (/^\d{1,12}$/.test(text ?? '') ? Number(text) : 0);

/** The name of a repository in an archive: its path, or its own name if it is the workspace itself. */
export const repoKey = ({ path, name }: Pick<PreparedRepository, 'path' | 'name'>): string =>
  path === '.' ? name.replace(/[^\w.-]/g, '_') || 'repository' : path;

/** Arguments of `find` that exclude the repositories; `.` if one is the whole workspace. */
const findExclusions = (repos: readonly PreparedRepository[]): string =>
  repos.some(({ path }) => path === '.')
    ? '.'
    : repos.map(({ path }) => `-path ${quoted(`./${path}`)} -prune -o`).join(' ');

const quoted = (path: string): string => `'${path.replace(/[*?[\]\\]/g, '\\$&').replaceAll("'", "'\\''")}'`;

/** Reads a stream by lines and by lengths. Buffers no more than was asked for and one chunk. */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: Readable) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  /** Without its newline; undefined at the end of the stream. */
  async line(maxBytes = 4096): Promise<string | undefined> {
    for (;;) {
      const end = this.#rest.indexOf('\n');
      if (end >= 0) return this.#take(end + 1).toString('utf8', 0, end);
      if (this.#rest.length > maxBytes) throw new Error('a line is too long');
      if (!(await this.#fill())) return undefined;
    }
  }

  async bytes(length: number): Promise<Buffer> {
    // Not a list of parts: they may be single bytes, each of which takes some hundred bytes of memory.
    const bytes = Buffer.allocUnsafe(length);
    for (let from = 0; from < length; ) {
      if (this.#rest.length === 0 && !(await this.#fill())) throw new Error('the output ended early');
      from += this.#take(Math.min(length - from, this.#rest.length)).copy(bytes, from);
    }
    return bytes;
  }

  #take(length: number): Buffer {
    const taken = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return taken;
  }

  async #fill(): Promise<boolean> {
    const { done, value } = await this.#chunks.next();
    if (done) return false;
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value]);
    return true;
  }
}
