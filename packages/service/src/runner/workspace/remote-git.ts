import type { GitCredential } from '@muster/sdk/contract';
import { messageOf } from '../../lib/errors.ts';
import { ValueMask } from '../../lib/value-mask.ts';
import { type GitOptions, type GitResult, runGit } from './git.ts';
import type { AskCredential } from './git-credentials.ts';
import type { HttpAccess, RemoteAccess } from './remote-access.ts';

export interface RemoteGitOptions {
  /** The folder of the mirror. */
  readonly folder: string;
  /** Used if no integration covers the repository. */
  readonly access: RemoteAccess;
  readonly accessWith: (credential: GitCredential) => RemoteAccess;
}

type CommandOptions = Partial<Pick<GitOptions, 'signal' | 'environment'>>;

/** The exit code of git for fatal errors. */
const fatalExit = 128;

/** Git commands in a mirror that connect to the repository's host. */
export class RemoteGit {
  readonly #options: RemoteGitOptions;

  constructor(options: RemoteGitOptions) {
    this.#options = options;
  }

  /** The URL in the workspace, without credentials. */
  get url(): string {
    return this.#options.access.url;
  }

  /**
   * Runs a command with the credential of the integration that covers the repository, or with the runner's own access
   * if none does. If the host refuses a credential, it may have been revoked: then another one is requested, once.
   */
  async git(
    argsFor: (url: string) => readonly string[],
    asks: readonly AskCredential[],
    options: CommandOptions = {},
  ): Promise<GitResult> {
    const { access, accessWith } = this.#options;
    const connectWith = async (credential: GitCredential): Promise<GitResult> =>
      masked(await this.#connect(accessWith(credential), argsFor, options), credential);
    try {
      const credential = await firstAnswer(asks, false);
      if (!credential) return await this.#connect(access, argsFor, options);
      const result = await connectWith(credential);
      const renewed = isRefused(result) ? await firstAnswer(asks, true) : null;
      if (!renewed) return result;
      const isSame = renewed.password === credential.password;
      const again = isSame ? result : await connectWith(renewed);
      return isRefused(again) ? withAdvice(again, renewed) : again;
    } catch (error) {
      return { exitCode: fatalExit, stdout: '', stderr: messageOf(error) };
    }
  }

  /** Access to the LFS server of the repository, with the same credential. */
  async http(ask: AskCredential): Promise<HttpAccess> {
    const credential = await ask(false);
    return (credential ? this.#options.accessWith(credential) : this.#options.access).http();
  }

  async #connect(
    { url, environment, settings }: RemoteAccess,
    argsFor: (url: string) => readonly string[],
    options: CommandOptions,
  ): Promise<GitResult> {
    const before = [`--git-dir=${this.#options.folder}`, '-c', 'gc.auto=0', ...(await settings())];
    return runGit([...before, ...argsFor(url)], {
      isRemote: true,
      environment: { ...environment, ...options.environment },
      signal: options.signal,
    });
  }
}

/** Several runs may wait for the same command, and one of them may have ended since. */
async function firstAnswer(
  asks: readonly AskCredential[],
  isRefused: boolean,
): Promise<GitCredential | null> {
  let failure: unknown;
  for (const ask of asks) {
    try {
      return await ask(isRefused);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

/** What git prints when the host does not accept the credential, or does not show the repository to it. */
const refusedAccess = /Authentication failed|returned error: 40[13]\b|repository '.*' not found/i;

const isRefused = ({ exitCode, stderr }: GitResult): boolean => exitCode !== 0 && refusedAccess.test(stderr);

/** A host could send back what it received. */
function masked(result: GitResult, { username, password }: GitCredential): GitResult {
  const basic = Buffer.from(`${username}:${password}`).toString('base64');
  const mask = new ValueMask([password, basic]);
  return { ...result, stdout: mask.text(result.stdout), stderr: mask.text(result.stderr) };
}

function withAdvice(result: GitResult, { integration, missing }: GitCredential): GitResult {
  const lacks = missing.join(' ') || `\`muster integration test ${integration}\` says what it lacks`;
  const advice = `This was the credential of the integration "${integration}": ${lacks}`;
  return { ...result, stderr: `${result.stderr.trimEnd()}\n${advice}\n` };
}
