import type { Diff, HarnessListener } from '../../harness/harness.ts';
import { messageOf } from '../../lib/errors.ts';
import type { RunnerLog } from '../../lib/log.ts';
import {
  branchDiff,
  changedCiDefinitions,
  changedFiles,
  isTreeWithinLimit,
  newCommits,
  startOfBranch,
} from '../workspace/changes.ts';
import { type GitResult, gitErrorText, runGit, withoutUserInfo } from '../workspace/git.ts';
import { Quarantine } from '../workspace/mirror.ts';
import type { PreparedRepository } from '../workspace/prepare.ts';

/**
 * The receiving side of a push, implemented by the runner. Git's own receive-pack would write to the mirror first; here
 * a push succeeds only when the repository's host has accepted it:
 *
 *   check refs → store objects in quarantine → check commits → push upstream → update the mirror → report → `ok`
 */
export interface ReceiveOptions {
  readonly repository: PreparedRepository;
  /** The one branch that may be pushed. */
  readonly branch: string;
  readonly startFrom: readonly string[];
  /** Whether a push may change the CI definitions of the repository. */
  readonly allowCiChanges: boolean;
  readonly listener: PushListener;
  /** Aborts when the run has lost its lease or has ended. */
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
/** Fewer objects than this are stored as loose objects, as git does. */
const unpackLimit = 100;
const commandPattern = /^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) (refs\/\S+)$/;

/** Receives one push. Returns the body of the answer. */
export async function receivePack(options: ReceiveOptions, request: AsyncIterable<Buffer>): Promise<Buffer> {
  const reader = new PacketReader(request);
  const { commands, capabilities } = readCommands(await reader.untilFlush(mostCommandBytes));
  if (commands.length === 0) return Buffer.alloc(0);
  const ownRef = `refs/heads/${options.branch}`;
  const own = commands.find(({ ref, after }) => ref === ownRef && !isNone(after));
  if (!own) for await (const _ of reader.rest());
  const outcome = own ? await receiveBranch(options, own, reader) : { notes: '' };
  const verdicts = commands.map((command): Verdict => {
    const problem = command === own ? outcome.problem : refusal(command, options.branch);
    return { ref: command.ref, ...(problem && { problem }) };
  });
  const hint = commands.some((command) => command !== own)
    ? `muster: only the branch ${options.branch} may be pushed\n`
    : '';
  return answer(capabilities, outcome.unpackProblem, verdicts, outcome.notes + hint);
}

interface Outcome {
  readonly unpackProblem?: string;
  readonly problem?: string;
  readonly notes: string;
}

async function receiveBranch(
  options: ReceiveOptions,
  command: Command,
  reader: PacketReader,
): Promise<Outcome> {
  const quarantine = await Quarantine.open(options.repository.mirror);
  try {
    const unpackProblem = await storeObjects(quarantine, reader);
    if (unpackProblem !== undefined) return { unpackProblem, problem: 'unpacker error', notes: '' };
    return await pushBranch(options, quarantine, command);
  } finally {
    await quarantine.remove();
  }
}

function readCommands(packets: readonly Buffer[]): { commands: Command[]; capabilities: Set<string> } {
  let capabilities = '';
  const commands = packets.flatMap((content): Command[] => {
    const line = content.toString('utf8');
    // The boundary of a shallow clone. The mirror has the commits beyond it.
    if (line.startsWith('shallow ')) return [];
    const [text = '', offered] = line.split('\0');
    if (offered !== undefined) capabilities = offered;
    const [, before, after, ref] = commandPattern.exec(text.replace(/\n$/, '')) ?? [];
    if (!before || !after || !ref)
      throw new MalformedRequest('the request contains a command that is not an update of a ref');
    return [{ before, after, ref }];
  });
  return { commands, capabilities: new Set(capabilities.trim().split(' ')) };
}

const isNone = (id: string): boolean => /^0+$/.test(id);

function refusal({ ref, after }: Command, branch: string): string {
  if (isNone(after)) return "muster: refs can't be deleted";
  const kind = ref.startsWith('refs/tags/') ? "tags can't be pushed" : 'this is not your branch';
  return `muster: ${kind}; push to ${branch}`;
}

/** Returns what is wrong, if anything. */
async function storeObjects(quarantine: Quarantine, reader: PacketReader): Promise<string | undefined> {
  const head = await reader.take(12);
  // A branch at a commit that the mirror has needs no objects.
  if (head.length === 0) return undefined;
  if (head.length < 12 || head.toString('latin1', 0, 4) !== 'PACK') return 'the pack is damaged';
  const store =
    head.readUInt32BE(8) < unpackLimit ? ['unpack-objects', '-q'] : ['index-pack', '--stdin', '--fix-thin'];
  const whole = async function* () {
    yield head;
    yield* reader.rest();
  };
  const { folder, environment } = quarantine;
  const args = [`--git-dir=${folder}`, ...store, `--max-input-size=${mostPackBytes}`];
  const stored = await runGit(args, { environment, input: whole() });
  return stored.exitCode === 0 ? undefined : gitErrorText(stored);
}

async function pushBranch(
  options: ReceiveOptions,
  quarantine: Quarantine,
  { before, after }: Command,
): Promise<Outcome> {
  const { repository, branch, signal, log } = options;
  const { mirror, askCredential } = repository;
  if (before === after) return { notes: '' };
  const problem = await problemWith(options, quarantine, after);
  if (problem !== undefined) return { problem: `muster: ${problem}`, notes: '' };
  const commits = await newCommits(quarantine, after);
  if (signal.aborted) return { problem: 'muster: the run has ended', notes: '' };
  const previous = isNone(before) ? '' : before;
  const { objectsFolder } = quarantine;
  const pushed = await mirror.pushUpstream(
    { branch, before: previous, commit: after, objectsFolder },
    askCredential,
    signal,
  );
  const notes = remoteNotes(pushed);
  if (pushed.exitCode !== 0)
    return { problem: `muster: ${upstreamProblem(pushed, repository.shownUrl)}`, notes };
  // The push has succeeded: errors from here on must not be reported to the agent.
  try {
    await quarantine.accept();
    await mirror.setBranch(branch, after);
  } catch (error) {
    log.warn({ err: error }, 'mirror not updated after push');
  }
  await report(options, previous, after, commits).catch((error: unknown) =>
    log.error({ err: error }, 'push not reported'),
  );
  return { notes };
}

/** Why a commit can't be pushed; undefined when it can. */
async function problemWith(
  { repository, allowCiChanges, listener }: ReceiveOptions,
  quarantine: Quarantine,
  commit: string,
): Promise<string | undefined> {
  if ((await quarantine.tryGit(['cat-file', '-e', `${commit}^{commit}`])).exitCode !== 0)
    return 'a branch has to point to a commit';
  const walk = ['rev-list', '--objects', '--quiet', commit, '--not', '--branches', '--tags'];
  if ((await quarantine.tryGit(walk)).exitCode !== 0) return 'objects are missing in the push';
  if (!(await isTreeWithinLimit(quarantine, commit))) return 'the commit has too many files';
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

type ReportOptions = Pick<ReceiveOptions, 'repository' | 'branch' | 'startFrom' | 'listener'>;

async function report(
  { repository, branch, startFrom, listener }: ReportOptions,
  previous: string,
  tip: string,
  commits?: string[],
): Promise<void> {
  const { mirror, shownUrl } = repository;
  const from = previous || (await startOfBranch(mirror, repository, tip, startFrom));
  const files = await changedFiles(mirror, from, tip);
  const since = commits ?? (await newCommits(mirror, tip, (await mirror.has(from)) ? [from] : []));
  listener.push({ repo: shownUrl, ref: branch, tip, commits: since, files });
  listener.diff(await branchDiff(mirror, repository, tip));
}

/**
 * Reports where the branch is, unless that is known. An earlier try of the same messages may have pushed and then been
 * lost with its runner before the push was reported.
 */
export async function reportLostPush(options: ReportOptions, known: string | undefined): Promise<void> {
  const { mirror, askCredential } = options.repository;
  await mirror.refresh(askCredential);
  const tip = (await mirror.refs()).get(`refs/heads/${options.branch}`);
  if (tip === undefined || tip === known) return;
  await report(options, known && (await mirror.has(known)) ? known : '', tip);
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
    return 'the branch was changed by someone else; fetch it, rebase or merge, and push again';
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

/** Git's packets have four hexadecimal digits of length, then the content; `0000` alone is a flush. */
const mostPacketBytes = 65_520;
const bandBytes = mostPacketBytes - 5;

export const flush = Buffer.from('0000');

export function packet(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from((bytes.length + 4).toString(16).padStart(4, '0')), bytes]);
}

/** One band of a multiplexed answer: 1 is the answer itself, 2 is shown to the user after `remote:`. */
function band(number: 1 | 2, content: Buffer): Buffer {
  const packets: Buffer[] = [];
  for (let at = 0; at < content.length; at += bandBytes)
    packets.push(packet(Buffer.concat([Buffer.of(number), content.subarray(at, at + bandBytes)])));
  return Buffer.concat(packets);
}

export class MalformedRequest extends Error {}

/** Reads packets from the beginning of a stream, then the rest of it. */
class PacketReader {
  readonly #source: AsyncIterator<Buffer>;
  #held: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** The packets up to the next flush; none when the stream has ended. */
  async untilFlush(mostBytes: number): Promise<Buffer[]> {
    const packets: Buffer[] = [];
    for (let bytes = 0; bytes <= mostBytes; ) {
      const digits = (await this.take(4)).toString('latin1');
      if (digits === '0000' || (digits === '' && packets.length === 0)) return packets;
      const length = /^[0-9a-f]{4}$/i.test(digits) ? Number.parseInt(digits, 16) : 0;
      if (length < 4 || length > mostPacketBytes)
        throw new MalformedRequest('the request does not consist of git packets');
      const content = await this.take(length - 4);
      if (content.length < length - 4)
        throw new MalformedRequest('the request ended in the middle of a packet');
      packets.push(content);
      bytes += length;
    }
    throw new MalformedRequest('the request names too many refs');
  }

  /** Returns fewer bytes at the end of the stream. */
  async take(bytes: number): Promise<Buffer> {
    while (this.#held.length < bytes) {
      const next = await this.#source.next();
      if (next.done) break;
      this.#held = Buffer.concat([this.#held, next.value]);
    }
    const taken = this.#held.subarray(0, bytes);
    this.#held = this.#held.subarray(bytes);
    return taken;
  }

  async *rest(): AsyncGenerator<Buffer> {
    if (this.#held.length > 0) yield this.#held;
    this.#held = Buffer.alloc(0);
    for (let next = await this.#source.next(); !next.done; next = await this.#source.next()) yield next.value;
  }
}
