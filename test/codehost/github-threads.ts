import type { Caller, EmulatedGithub, Json } from './emulated-github.ts';
import { type StoredComment, type StoredThread, type ThreadStore, TypedError } from './github-graphql.ts';

export interface GithubThreadsOptions {
  readonly emulated: EmulatedGithub;
  readonly repo: string;
  /** The token of the repository's owner. */
  readonly owner: string;
  readonly shown: (link: string) => string;
  readonly onResolved: (number: number, thread: string, isResolved: boolean, caller: Caller) => Promise<void>;
}

/** The review threads, made of emulate's review comments: emulate has none itself. */
export class GithubThreads implements ThreadStore {
  readonly #options: GithubThreadsOptions;
  /** First comments of resolved threads. */
  readonly #resolved = new Set<number>();
  /** Paths whose lines a later push has changed. */
  readonly outdated = new Set<string>();
  /** First lines of threads, which emulate does not keep, by path, line and text. */
  readonly #startLines = new Map<string, number>();

  constructor(options: GithubThreadsOptions) {
    this.#options = options;
  }

  setStartLine(path: string, line: number, body: string, startLine: number): void {
    this.#startLines.set(`${path} ${line} ${body}`, startLine);
  }

  async threads(repo: string, number: number, caller: Caller): Promise<StoredThread[]> {
    if (repo !== this.#options.repo) throw new TypedError('NOT_FOUND', `Could not resolve to ${repo}`);
    const comments = await this.#comments(number);
    return comments
      .filter((comment) => comment.in_reply_to_id === null)
      .map((root) => this.#thread(number, root, comments, caller));
  }

  async reply(thread: string, body: string, caller: Caller): Promise<StoredComment> {
    const { emulated, repo } = this.#options;
    const { number, root } = partsOf(thread);
    const sent = JSON.stringify({ body, in_reply_to_id: root });
    const path = `/repos/${repo}/pulls/${number}/comments`;
    const reply = await emulated.send(`Bearer ${caller.token}`, 'POST', path, sent);
    if (reply.status === 403) throw new TypedError('FORBIDDEN', 'Resource not accessible by integration');
    if (reply.status !== 201) throw new TypedError('UNPROCESSABLE', reply.body);
    return this.#comment(JSON.parse(reply.body) as Json);
  }

  /** GitHub wants write access to the contents for this, not only to pull requests. */
  async setResolved(thread: string, isResolved: boolean, caller: Caller): Promise<StoredThread> {
    const { number, root } = partsOf(thread);
    if (!mayResolve(caller)) throw new TypedError('FORBIDDEN', 'Resource not accessible by integration');
    const found = await this.threads(this.#options.repo, number, caller);
    if (!found.some(({ id }) => id === thread))
      throw new TypedError('NOT_FOUND', `Could not resolve to a node with the global id of '${thread}'`);
    if (isResolved) this.#resolved.add(root);
    else this.#resolved.delete(root);
    await this.#options.onResolved(number, thread, isResolved, caller);
    const [changed] = (await this.threads(this.#options.repo, number, caller)).filter(
      ({ id }) => id === thread,
    );
    return changed as StoredThread;
  }

  async #comments(number: number): Promise<Json[]> {
    const { emulated, repo, owner } = this.#options;
    const found: Json[] = [];
    for (let page = 1; found.length === (page - 1) * 100; page++) {
      const path = `/repos/${repo}/pulls/${number}/comments?per_page=100&page=${page}`;
      const reply = await emulated.send(`Bearer ${owner}`, 'GET', path);
      if (reply.status !== 200)
        throw new TypedError('NOT_FOUND', `Could not resolve to a PullRequest with the number of ${number}.`);
      found.push(...(JSON.parse(reply.body) as Json[]));
    }
    return found;
  }

  #thread(number: number, root: Json, comments: readonly Json[], caller: Caller): StoredThread {
    const line = Number(root.line ?? root.position);
    const replies = comments.filter((comment) => comment.in_reply_to_id === root.id);
    return {
      id: `PRRT_${Buffer.from(`${number}:${root.id}`).toString('base64url')}`,
      path: String(root.path),
      line,
      startLine: this.#startLines.get(`${root.path} ${line} ${root.body}`) ?? null,
      isResolved: this.#resolved.has(Number(root.id)),
      isOutdated: this.outdated.has(String(root.path)),
      mayResolve: mayResolve(caller),
      comments: [root, ...replies].map((comment) => this.#comment(comment)),
    };
  }

  #comment(comment: Json): StoredComment {
    return {
      id: Number(comment.id),
      author: String((comment.user as Json).login),
      body: String(comment.body),
      url: this.#options.shown(String(comment.html_url)),
    };
  }
}

const mayResolve = ({ login, role, permissions }: Caller): boolean =>
  login === '' ? permissions.contents === 'write' : role === 'write';

function partsOf(thread: string): { readonly number: number; readonly root: number } {
  const text = Buffer.from(thread.replace(/^PRRT_/, ''), 'base64url').toString();
  const [, number, root] = /^(\d+):(\d+)$/.exec(text) ?? [];
  if (!number || !root)
    throw new TypedError('NOT_FOUND', `Could not resolve to a node with the global id of '${thread}'`);
  return { number: Number(number), root: Number(root) };
}
