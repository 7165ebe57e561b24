import { spawn } from 'node:child_process';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Diff, HarnessListener } from '../../harness/harness.ts';
import type { RunnerLog } from '../../lib/log.ts';
import { messageOf } from '../../lib/message-of.ts';
import { assertSpawned } from '../sandbox/proc.ts';
import {
  branchDiff,
  changedCiDefinitions,
  changedFiles,
  isTreeWithinLimit,
  newCommits,
  startOfBranch,
} from '../workspace/changes.ts';
import { type GitResult, gitErrorText, gitTimeoutMs, localGit, withoutUserInfo } from '../workspace/git.ts';
import { Quarantine } from '../workspace/mirror.ts';
import type { PreparedRepository } from '../workspace/prepare.ts';
import { band, flush, MalformedRequest, PacketReader, packet } from './git-packets.ts';

/**
 * The receiving side of a push, spoken by the runner itself. Git's own would write the mirror first and could only
 * say afterwards what became of the push; here a push is good when the repository's host has taken it:
 *
 *   refs allowed → objects into a quarantine → complete, allowed → pushed upstream → into the mirror → reported → `ok`
 */
export interface Receiving {
  readonly repository: PreparedRepository;
  /** The one branch that may be pushed. */
  readonly branch: string;
  readonly startFrom: readonly string[];
  /** Whether a push may change what the repository's CI system runs. */
  readonly allowCiChanges: boolean;
  readonly listener: PushListener;
  /** Aborts when the run may no longer act. */
  readonly signal: AbortSignal;
  readonly log: RunnerLog;
}

export interface PushListener extends Pick<HarnessListener, 'push' | 'item'> {
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
  if (!own) await drain(reader);
  const outcome = own ? await receiveOwn(receiving, own, reader) : { notes: '' };
  const verdicts = commands.map((command): Verdict => {
    const problem = command === own ? outcome.problem : refusal(command, receiving.branch);
    return { ref: command.ref, ...(problem && { problem }) };
  });
  const hint = commands.some((command) => command !== own)
    ? `muster: only the branch ${receiving.branch} may be pushed from here\n`
    : '';
  return answer(capabilities, outcome.unpackProblem, verdicts, outcome.notes + hint);
}

/** What became of the push of the agent's own branch. */
interface Outcome {
  readonly unpackProblem?: string;
  readonly problem?: string;
  readonly notes: string;
}

async function receiveOwn(receiving: Receiving, command: Command, reader: PacketReader): Promise<Outcome> {
  const quarantine = await Quarantine.open(receiving.repository.mirror);
  try {
    const unpackProblem = await storeObjects(quarantine, reader);
    if (unpackProblem !== undefined) return { unpackProblem, problem: 'unpacker error', notes: '' };
    return await move(receiving, quarantine, command);
  } finally {
    await quarantine.remove();
  }
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
      throw new MalformedRequest('the request asks for something that is not an update of a ref');
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
async function storeObjects(quarantine: Quarantine, reader: PacketReader): Promise<string | undefined> {
  const head = await reader.take(12);
  // A branch at a commit that is known already may come without any objects.
  if (head.length === 0) return undefined;
  if (head.length < 12 || head.toString('latin1', 0, 4) !== 'PACK') return 'the pack is damaged';
  const store =
    head.readUInt32BE(8) < unpackLimit ? ['unpack-objects', '-q'] : ['index-pack', '--stdin', '--fix-thin'];
  const args = [`--git-dir=${quarantine.folder}`, ...store, `--max-input-size=${mostPackBytes}`];
  const child = assertSpawned(
    spawn(...localGit(args), {
      env: { ...quarantine.environment },
      stdio: ['pipe', 'ignore', 'pipe'],
      timeout: gitTimeoutMs,
      killSignal: 'SIGKILL',
    }),
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
  return exitCode === 0 ? undefined : gitErrorText({ exitCode, stderr, stdout: '' });
}

async function move(
  receiving: Receiving,
  quarantine: Quarantine,
  { before, after }: Command,
): Promise<Outcome> {
  const { repository, branch, signal, log } = receiving;
  const { mirror } = repository;
  if (before === after) return { notes: '' };
  const problem = await problemWith(receiving, quarantine, after);
  if (problem !== undefined) return { problem: `muster: ${problem}`, notes: '' };
  const commits = await newCommits(quarantine, after);
  if (signal.aborted) return { problem: 'muster: the run is over', notes: '' };
  const previous = isNone(before) ? '' : before;
  const { objectsFolder } = quarantine;
  const pushed = await mirror.pushUpstream(
    { branch, before: previous, commit: after, objectsFolder },
    signal,
  );
  const notes = remoteNotes(pushed);
  if (pushed.exitCode !== 0)
    return { problem: `muster: ${upstreamProblem(pushed, repository.shownUrl)}`, notes };
  // It is pushed, whatever comes after: the agent must not be told otherwise.
  try {
    await quarantine.accept();
    await mirror.setBranch(branch, after);
  } catch (error) {
    log.warn({ err: error }, 'mirror not updated after push');
  }
  await tell(receiving, previous, after, commits).catch((error: unknown) =>
    log.error({ err: error }, 'push not reported'),
  );
  return { notes };
}

/** Why a commit may not be pushed. */
async function problemWith(
  { repository, allowCiChanges, listener }: Receiving,
  quarantine: Quarantine,
  commit: string,
): Promise<string | undefined> {
  if ((await quarantine.tryGit(['cat-file', '-e', `${commit}^{commit}`])).exitCode !== 0)
    return 'a branch leads to a commit';
  const walk = ['rev-list', '--objects', '--quiet', commit, '--not', '--branches', '--tags'];
  if ((await quarantine.tryGit(walk)).exitCode !== 0) return 'the push lacks objects that it needs';
  if (!(await isTreeWithinLimit(quarantine, commit))) return 'it holds too many files';
  if (allowCiChanges) return undefined;
  const changed = await changedCiDefinitions(quarantine, repository, commit).catch((error: unknown) => [
    `unknown paths (${messageOf(error)})`,
  ]);
  if (changed.length === 0) return undefined;
  const shown = changed.length > 5 ? [...changed.slice(0, 5), `${changed.length - 5} more`] : changed;
  const text = `the push changes CI definitions (${shown.join(', ')}), which this workspace does not allow`;
  listener.item({
    type: 'WARNING',
    text: `Push refused: ${text}. To allow it, set allowCiChanges: true in the workspace.`,
  });
  return `${text}; restore them to the base branch's version and push again`;
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
  return `${shownUrl} could not be pushed to: ${gitErrorText(result)}`;
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
