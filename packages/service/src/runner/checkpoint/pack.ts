import { readFileSync } from 'node:fs';
import { limits } from '@muster/sdk/contract';
import type { Diff, Processes } from '../../harness/harness.ts';
import { packageFile } from '../../lib/package-file.ts';
import { cutDiff } from '../workspace/changes.ts';
import type { PreparedRepository } from '../workspace/prepare.ts';
import { ByteReader } from './byte-reader.ts';

const script = readFileSync(packageFile('scripts/pack-checkpoint.sh'), 'utf8');

/** Git needs seconds for what may be saved; an agent may have put anything in its place. */
const packMs = 5 * 60_000;
const mostBytes = limits.checkpointParts * limits.checkpointPartBytes;
const mostNotes = 20;
/** Beside a diff of each repository. */
const mostLines = 50;

export interface PackOptions {
  readonly processes: Processes;
  readonly repos: readonly PreparedRepository[];
  /** Of the session, below the agent's home. */
  readonly patterns: readonly string[];
  /** Of the last checkpoint; empty to pack in any case. */
  readonly fingerprint: string;
  readonly signal: AbortSignal;
  /** Called with each part of the archive, in order, one at a time. */
  readonly onPart: (part: Buffer, index: number) => Promise<void>;
}

export interface Packed {
  readonly commits: number;
  readonly files: number;
  readonly diffs: readonly Diff[];
  /** What is not in the archive. */
  readonly notes: readonly string[];
  /** Empty when the work is too large, so that no archive was made. */
  readonly fingerprint: string;
  /** Of the archive, also of one that is too large. */
  readonly bytes: number;
  readonly parts: number;
}

/** Packs an agent's session and unpushed work, by a process of the agent's own. Undefined: nothing has changed. */
export async function pack(options: PackOptions): Promise<Packed | undefined> {
  const { processes, repos, patterns, fingerprint, signal } = options;
  const diffLength = String(4 * limits.diffLength);
  const facts = repos.flatMap((repo) => [repoKey(repo), repo.path, repo.baseBranch || 'HEAD']);
  const fixed = [fingerprint, String(mostBytes), diffLength, patterns.join(' '), leftOut(repos)];
  const packing = processes.start(['/bin/sh', '-c', script, 'sh', ...fixed, ...facts], { gateway: 'never' });
  const kill = (): void => void packing.kill();
  const timer = setTimeout(kill, packMs);
  signal.addEventListener('abort', kill, { once: true });
  packing.child.stdin.end();
  packing.child.stderr.resume();
  try {
    return await read(new ByteReader(packing.child.stdout), options);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', kill);
    packing.child.stdout.destroy();
    await packing.kill();
  }
}

/** What the script prints. An agent can replace the programs that the script uses, so nothing in it is trusted. */
async function read(output: ByteReader, { repos, onPart }: PackOptions): Promise<Packed | undefined> {
  const found = { commits: 0, files: 0, fingerprint: '', bytes: 0, parts: 0 };
  const diffs: Diff[] = [];
  const notes: string[] = [];
  for (let lines = repos.length + mostLines; lines > 0; lines--) {
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
        if (notes.length < mostNotes) notes.push(values.join(' ').slice(0, 300));
        break;
      case 'diff': {
        const text = (await output.bytes(Math.min(count, 4 * limits.diffLength))).toString();
        const repo = repos.find((one) => repoKey(one) === values.slice(0, -4).join(' '));
        const [files = 0, insertions = 0, deletions = 0] = values.slice(-4, -1).map(numberOf);
        if (repo)
          diffs.push({
            repo: repo.shownUrl,
            workingTree: true,
            files,
            insertions,
            deletions,
            text: cutDiff(text),
          });
        break;
      }
      case 'large':
        return { ...found, diffs, notes, bytes: count };
      case 'fingerprint':
        found.fingerprint = values[0] ?? '';
        break;
      case 'archive': {
        if (count === 0 || count > mostBytes) throw notPacked();
        let parts = 0;
        for (let left = count; left > 0; left -= limits.checkpointPartBytes)
          await onPart(await output.bytes(Math.min(left, limits.checkpointPartBytes)), parts++);
        return { ...found, diffs, notes, bytes: count, parts };
      }
    }
  }
  throw notPacked();
}

const notPacked = (): Error => new Error('the files could not be packed');

const numberOf = (text: string | undefined): number => (/^\d{1,12}$/.test(text ?? '') ? Number(text) : 0);

/** The name of a repository in an archive: its path, or its own name where it is the workspace itself. */
export const repoKey = ({ path, name }: Pick<PreparedRepository, 'path' | 'name'>): string =>
  path === '.' ? name.replace(/[^\w.-]/g, '_') || 'repository' : path;

/** The paths of the repositories, for `find` to leave out; `.` when one is the whole workspace. */
const leftOut = (repos: readonly PreparedRepository[]): string =>
  repos.some(({ path }) => path === '.')
    ? '.'
    : repos.map(({ path }) => `-path ${quoted(`./${path}`)} -prune -o`).join(' ');

const quoted = (path: string): string => `'${path.replace(/[*?[\]\\]/g, '\\$&').replaceAll("'", "'\\''")}'`;
