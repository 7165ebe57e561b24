import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { AlreadyExistsError, FailedPreconditionError, PermissionDeniedError } from '@muster/sdk';
import { readRepos, splitUrl, urlProblem } from '../lib/repositories.ts';
import type { Invocation } from './command.ts';
import { CommandError, exitCodes, usageError } from './errors.ts';

/** The name of a workspace with the repository that `--repo` names; it is created if there is none. */
export async function workspaceOf(
  { client, output, signal }: Pick<Invocation, 'client' | 'output' | 'signal'>,
  given: string,
): Promise<string> {
  const finding = repositoryOf(given, signal);
  const { url, note } = await output.progress.during('looking for the repository', finding);
  if (note !== '') output.note(note);
  const { catalog } = client();
  const taken: string[] = [];
  const fitting: string[] = [];
  for await (const { name, document } of catalog.listAll('workspace', { signal })) {
    taken.push(name);
    if (hasOnly(document, url)) fitting.push(name);
  }
  const [found] = fitting;
  if (found !== undefined) {
    const others =
      fitting.length > 1 ? `, as have ${fitting.slice(1).join(', ')}; --workspace chooses one` : '';
    output.note(`workspace ${found} has ${url}${others}`);
    return found;
  }
  const name = freeName(url, taken);
  try {
    await catalog.write('workspace', name, { repos: [{ url }] }, { ifGenerationMatch: '0', signal });
  } catch (error) {
    if (error instanceof PermissionDeniedError)
      throw new CommandError(
        `no workspace has ${url}, and you may not create one: ask an admin for it`,
        exitCodes.denied,
      );
    if (error instanceof AlreadyExistsError || error instanceof FailedPreconditionError)
      throw new CommandError(
        `someone else created workspace ${name} meanwhile; try again`,
        exitCodes.conflict,
      );
    throw error;
  }
  output.note(`created workspace ${name} for ${url}; change it with muster edit workspace ${name}`);
  return name;
}

const execute = promisify(execFile);
const reachMs = 15_000;

interface FoundRepository {
  readonly url: string;
  readonly note: string;
}

/** A path means the remote `origin` of the clone if it answers, else the clone itself. */
async function repositoryOf(given: string, signal: AbortSignal): Promise<FoundRepository> {
  const isFolder = statSync(given, { throwIfNoEntry: false })?.isDirectory() === true;
  if (!isFolder) {
    const problem = /^[./~]/.test(given) ? 'does not exist' : urlProblem(given);
    if (problem) throw usageError(`--repo: "${given}" ${problem}`);
    return { url: splitUrl(given).shownUrl, note: '' };
  }
  const ssh = process.env.GIT_SSH_COMMAND || (await sshCommand(given));
  // Nobody is asked for a password while this waits.
  const env = { ...process.env, GIT_TERMINAL_PROMPT: '0', GIT_SSH_COMMAND: `${ssh} -oBatchMode=yes` };
  const git = async (...args: string[]): Promise<string> =>
    (await execute('git', args, { cwd: given, env, signal, timeout: reachMs })).stdout.trim();
  const top = await git('rev-parse', '--path-format=absolute', '--git-common-dir').catch(() => {
    throw usageError(`--repo: "${given}" is not a git repository`);
  });
  const own = top.replace(/\/\.git$/, '');
  const origin = await git('remote', 'get-url', 'origin').catch(() => '');
  const onlyHere = `the runner must be on this machine: the repository is ${own}`;
  if (origin === '') return { url: own, note: onlyHere };
  const url = splitUrl(urlProblem(origin) ? resolve(own, origin) : origin).shownUrl;
  const answers = await git('ls-remote', '--exit-code', '--', origin, 'HEAD').then(
    () => true,
    () => false,
  );
  signal.throwIfAborted();
  if (answers) return { url, note: '' };
  return { url: own, note: `its remote origin (${url}) does not answer; ${onlyHere}` };
}

const sshCommand = (cwd: string): Promise<string> =>
  execute('git', ['config', 'core.sshCommand'], { cwd }).then(
    ({ stdout }) => stdout.trim(),
    () => 'ssh',
  );

/** Whether a workspace has this repository and no other. */
function hasOnly(document: Readonly<Record<string, unknown>>, url: string): boolean {
  try {
    const [repo, ...others] = readRepos(document);
    return repo !== undefined && others.length === 0 && normalized(repo.url) === normalized(url);
  } catch {
    return false;
  }
}

/** `git@host:a/b`, `ssh://git@host/a/b.git` and `https://host/a/b/` are the same repository. */
function normalized(url: string): string {
  const [, host, path] = /^(?:https?|ssh):\/\/(?:[^/@]*@)?([^/]+)\/+(.*)$/i.exec(url) ??
    /^(?:[^/@]+@)([^/:]+):\/*(.*)$/.exec(url) ?? [undefined, '', url.replace(/^file:\/\//i, '')];
  return `${host?.toLowerCase()} ${path?.replace(/\/+$/, '').replace(/\.git$/i, '')}`;
}

function freeName(url: string, taken: readonly string[]): string {
  const last = url
    .replace(/[/\\]+$/, '')
    .replace(/\.git$/i, '')
    .replace(/^.*[/\\:]/s, '');
  const base =
    last
      .toLowerCase()
      .replace(/[^a-z0-9-]+/g, '-')
      .replace(/^-+|-+$/g, '')
      .slice(0, 50) || 'repository';
  for (let count = 1; ; count += 1) {
    const name = count === 1 ? base : `${base}-${count}`;
    if (!taken.includes(name)) return name;
  }
}
