import { spawn } from 'node:child_process';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Diff, Push } from '../../harness/harness.ts';
import type { RunnerLog } from '../log.ts';
import { spawned } from '../spawned.ts';
import { branchDiff, changedFiles, isOfUsualSize, newCommits, startOfBranch } from '../workspace/changes.ts';
import { complaintOf, type GitResult, localGit, withoutUserInfo } from '../workspace/git.ts';
import type { PreparedRepository } from '../workspace/prepare.ts';
import { band, flush, PacketReader, packet } from './git-packets.ts';

/**
 * The receiving side of a push, spoken by the runner itself. Git's own would write the mirror first and could only
 * say afterwards what became of the push; here a push is good when the repository's host has taken it:
 *
 *   refs allowed → objects into the mirror → nothing missing → pushed upstream → mirror's branch moved → told → `ok`
 *
 * Objects of a push that is refused further up stay in the mirror, where nothing leads to them.
 */
export interface Receiving {
  readonly repository: PreparedRepository;
  /** The one branch that may be pushed. */
  readonly branch: string;
  readonly startFrom: readonly string[];
  readonly listener: PushListener;
  /** Aborts when the run may no longer act. */
  readonly signal: AbortSignal;
  readonly log: RunnerLog;
}

export interface PushListener {
  push(push: Push): void;
  diff(diff: Diff): void;
}

interface Command {
  readonly before: string;
  readonly after: string;
  readonly ref: string;
}

type Verdict = { readonly ref: string; readonly problem?: string };

const mostCommandBytes = 1024 * 1024;
const mostPackBytes = 2 * 1024 * 1024 * 1024;
/** Fewer objects than this are kept one by one, as git itself would. */
const unpackLimit = 100;
const commandPattern = /^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) (refs\/\S+)$/;

/** The answer to one push, as it goes over the wire. */
export async function receivePack(receiving: Receiving, request: AsyncIterable<Buffer>): Promise<Buffer> {
  const reader = new PacketReader(request);
  const { commands, capabilities } = readCommands(await reader.untilFlush(mostCommandBytes));
  if (commands.length === 0) return Buffer.alloc(0);
  const ownRef = `refs/heads/${receiving.branch}`;
  const own = commands.find(({ ref, after }) => ref === ownRef && !isNone(after));
  const unpackProblem = own ? await storeObjects(receiving.repository, reader) : await drain(reader);
  const verdicts: Verdict[] = [];
  let notes = '';
  for (const command of commands) {
    if (command !== own) {
      verdicts.push({ ref: command.ref, problem: refusal(command, receiving.branch) });
    } else if (unpackProblem !== undefined) {
      verdicts.push({ ref: command.ref, problem: 'unpacker error' });
    } else {
      const outcome = await move(receiving, command);
      verdicts.push({ ref: command.ref, ...(outcome.problem && { problem: outcome.problem }) });
      notes += outcome.notes;
    }
  }
  if (commands.some((command) => command !== own))
    notes += `muster: only the branch ${receiving.branch} may be pushed from here\n`;
  return answer(capabilities, unpackProblem, verdicts, notes);
}

function readCommands(packets: readonly Buffer[]): { commands: Command[]; capabilities: Set<string> } {
  let capabilities = '';
  const commands = packets.flatMap((content): Command[] => {
    const line = content.toString('utf8');
    // A shallow clone says where it ends. The mirror has what is behind that.
    if (line.startsWith('shallow ')) return [];
    const [text = '', offered] = line.split('\0');
    if (offered !== undefined) capabilities = offered;
    const [, before, after, ref] = commandPattern.exec(text.replace(/\n$/, '')) ?? [];
    if (!before || !after || !ref)
      throw new Error('the request asks for something that is not an update of a ref');
    return [{ before, after, ref }];
  });
  return { commands, capabilities: new Set(capabilities.trim().split(' ')) };
}

const isNone = (id: string): boolean => /^0+$/.test(id);

function refusal({ ref, after }: Command, branch: string): string {
  if (isNone(after)) return 'muster: nothing may be deleted from here';
  const kind = ref.startsWith('refs/tags/') ? 'tags stay here' : 'this is not your branch';
  return `muster: ${kind}; push to ${branch}`;
}

async function drain(reader: PacketReader): Promise<undefined> {
  for await (const _ of reader.rest());
}

/** The problem, if there is one. */
async function storeObjects(
  { mirror }: PreparedRepository,
  reader: PacketReader,
): Promise<string | undefined> {
  const head = await reader.take(12);
  // A branch at a commit that is known already may come without any objects.
  if (head.length === 0) return undefined;
  if (head.length < 12 || head.toString('latin1', 0, 4) !== 'PACK') return 'the pack is damaged';
  const store =
    head.readUInt32BE(8) < unpackLimit ? ['unpack-objects', '-q'] : ['index-pack', '--stdin', '--fix-thin'];
  const args = [`--git-dir=${mirror.folder}`, ...store, `--max-input-size=${mostPackBytes}`];
  const child = spawned(
    spawn(...localGit(args), { env: { ...mirror.environment }, stdio: ['pipe', 'ignore', 'pipe'] }),
  );
  const closed = new Promise<number | null>((resolve) => {
    child.once('error', () => resolve(null));
    child.once('close', resolve);
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    stderr = `${stderr}${chunk}`.slice(-4096);
  });
  const whole = async function* () {
    yield head;
    yield* reader.rest();
  };
  await pipeline(Readable.from(whole()), child.stdin).catch(() => child.kill());
  const exitCode = await closed;
  return exitCode === 0 ? undefined : complaintOf({ exitCode, stderr, stdout: '' });
}

interface Moved {
  readonly problem?: string;
  readonly notes: string;
}

async function move(receiving: Receiving, { before, after }: Command): Promise<Moved> {
  const { repository, branch, signal, log } = receiving;
  const { mirror } = repository;
  if (before === after) return { notes: '' };
  if ((await mirror.tryGit(['cat-file', '-e', `${after}^{commit}`])).exitCode !== 0)
    return { problem: 'muster: a branch leads to a commit', notes: '' };
  const walk = ['rev-list', '--objects', '--quiet', after, '--not', '--branches', '--tags'];
  if ((await mirror.tryGit(walk)).exitCode !== 0) return { problem: 'missing necessary objects', notes: '' };
  if (!(await isOfUsualSize(mirror, after))) return { problem: 'muster: it holds too many files', notes: '' };
  const commits = await newCommits(mirror, after);
  if (signal.aborted) return { problem: 'muster: the run is over', notes: '' };
  const previous = isNone(before) ? '' : before;
  const pushed = await mirror.pushUpstream(branch, previous, after, signal);
  const notes = remoteNotes(pushed);
  if (pushed.exitCode !== 0)
    return { problem: `muster: ${upstreamProblem(pushed, repository.shownUrl)}`, notes };
  // It is pushed, whatever comes after: the agent must not be told otherwise.
  await mirror
    .setBranch(branch, after)
    .catch((error: unknown) => log.warn({ err: error }, 'a mirror lags behind'));
  await tell(receiving, previous, after, commits).catch((error: unknown) =>
    log.error({ err: error }, 'a push could not be described'),
  );
  return { notes };
}

async function tell(
  { repository, branch, startFrom, listener }: Receiving,
  previous: string,
  tip: string,
  commits: string[],
): Promise<void> {
  const { mirror, shownUrl } = repository;
  const from = previous || (await startOfBranch(mirror, repository, tip, startFrom));
  const files = await changedFiles(mirror, from, tip);
  listener.push({ repo: shownUrl, ref: branch, commits, files });
  listener.diff(await branchDiff(mirror, repository, tip));
}

const remoteNotes = ({ stderr }: GitResult): string =>
  stderr
    .split('\n')
    .filter((line) => line.startsWith('remote: '))
    .map((line) => `${line.slice('remote: '.length).trimEnd()}\n`)
    .join('')
    .slice(-8192);

function upstreamProblem(result: GitResult, shownUrl: string): string {
  const why = /^!\t.*\t\[(?:remote )?rejected\] \((.*)\)$/m.exec(withoutUserInfo(result.stdout))?.[1];
  if (why === 'stale info' || why === 'fetch first')
    return 'somebody else has moved this branch; fetch it, take in what is there, and push again';
  if (why) return `${shownUrl} refused the push: ${why}`;
  return `${shownUrl} could not be pushed to: ${complaintOf(result)}`;
}

function answer(
  capabilities: ReadonlySet<string>,
  unpackProblem: string | undefined,
  verdicts: readonly Verdict[],
  notes: string,
): Buffer {
  const wantsReport = capabilities.has('report-status') || capabilities.has('report-status-v2');
  const report = wantsReport
    ? Buffer.concat([
        packet(`unpack ${oneLine(unpackProblem ?? 'ok')}\n`),
        ...verdicts.map(({ ref, problem }) =>
          packet(problem === undefined ? `ok ${ref}\n` : `ng ${ref} ${oneLine(problem)}\n`),
        ),
        flush,
      ])
    : Buffer.alloc(0);
  if (!capabilities.has('side-band-64k')) return report;
  return Buffer.concat([band(2, Buffer.from(notes)), band(1, report), flush]);
}

const oneLine = (text: string): string => text.replace(/\s+/g, ' ').trim().slice(0, 1000);
