import { execFileSync } from 'node:child_process';
import { createEmulator } from 'emulate';
import type { GitRemote } from '../support/git-remote.ts';

export type Json = Record<string, unknown>;

/** An answer of emulate's REST API. */
export interface RestReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Who a token belongs to. */
export interface Caller {
  readonly token: string;
  /** Of a user; empty for an installation of an App. */
  readonly login: string;
  /** What an installation may do. */
  readonly permissions: Readonly<Record<string, string>>;
  /** The names of the repositories that an installation's token is for; empty for all. */
  readonly repositories: readonly string[];
  /** What a user may do in the repository. */
  readonly role: 'read' | 'write';
}

/** emulate's GitHub: it keeps the state, and the repository in it follows a real bare repository. */
export class EmulatedGithub {
  readonly #origin: string;
  readonly #stop: () => Promise<void>;
  /** The commits of branches as emulate knows them. */
  readonly #mirrored = new Map<string, string>();
  /** Blobs that emulate has. */
  readonly #copied = new Set<string>();
  /** The token of the repository's owner. */
  readonly #owner: string;
  #mirroring: Promise<void> = Promise.resolve();

  private constructor(origin: string, owner: string, stop: () => Promise<void>) {
    this.#origin = origin;
    this.#owner = owner;
    this.#stop = stop;
  }

  static async start(seed: Json, owner: string): Promise<EmulatedGithub> {
    const emulator = await createEmulator({ service: 'github', port: 0, seed });
    return new EmulatedGithub(emulator.url, owner, () => emulator.close());
  }

  /** What its links begin with. */
  get linkOrigin(): string {
    return this.#origin;
  }

  get origin(): string {
    return this.#origin.replace('localhost', '127.0.0.1');
  }

  async send(authorization: string, method: string, path: string, body?: string): Promise<RestReply> {
    const response = await fetch(`${this.origin}${path}`, {
      method,
      // The server may close an idle connection while a request is on its way.
      headers: { authorization, connection: 'close', ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body }),
    });
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      body: await response.text(),
    };
  }

  /** A call of the test's own, which must succeed. */
  async call<T = Json>(token: string, method: string, path: string, body?: unknown): Promise<T> {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const reply = await this.send(`Bearer ${token}`, method, path, sent);
    if (reply.status >= 300) throw new Error(`${method} ${path}: ${reply.status} ${reply.body}`);
    return (reply.body ? JSON.parse(reply.body) : null) as T;
  }

  /**
   * Gives emulate the branches of the bare repository with all their objects; returns the branches that changed. Its ids
   * of objects are git's own.
   */
  mirror(repo: string, remote: GitRemote, token: string): Promise<readonly string[]> {
    const mirroring = this.#mirroring.then(() => this.#mirror(repo, remote, token));
    this.#mirroring = mirroring.then(
      () => {},
      () => {},
    );
    return mirroring;
  }

  async #mirror(repo: string, remote: GitRemote, token: string): Promise<string[]> {
    const changed = remote
      .refs()
      .filter((branch) => !branch.startsWith('refs/') && this.#mirrored.get(branch) !== remote.tip(branch));
    for (const branch of changed) {
      const sha = remote.tip(branch);
      const known = [...this.#mirrored.values()].map((tip) => `^${tip}`);
      const commits = remote.git('rev-list', '--reverse', '--topo-order', sha, ...known).split('\n');
      for (const commit of commits.filter(Boolean)) await this.#copyCommit(repo, remote, commit);
      const isNew = !this.#mirrored.has(branch);
      if (isNew)
        await this.call(token, 'POST', `/repos/${repo}/git/refs`, { ref: `refs/heads/${branch}`, sha });
      else await this.call(token, 'PATCH', `/repos/${repo}/git/refs/heads/${branch}`, { sha, force: true });
      this.#mirrored.set(branch, sha);
    }
    return changed;
  }

  async #copyCommit(repo: string, remote: GitRemote, commit: string): Promise<void> {
    const entries = remote.git('ls-tree', '-r', commit).split('\n').filter(Boolean);
    const tree: Json[] = [];
    for (const entry of entries) {
      const [, mode, type, sha = '', path] = /^(\d+) (\w+) (\w+)\t(.*)$/.exec(entry) ?? [];
      tree.push({ mode, type, sha, path });
      if (type !== 'blob' || this.#copied.has(sha)) continue;
      const content = readObject(remote, 'blob', sha).toString('base64');
      await this.call(this.#owner, 'POST', `/repos/${repo}/git/blobs`, { content, encoding: 'base64' });
      this.#copied.add(sha);
    }
    const { sha: treeSha } = await this.call(this.#owner, 'POST', `/repos/${repo}/git/trees`, { tree });
    const copy = await this.call(this.#owner, 'POST', `/repos/${repo}/git/commits`, {
      ...commitOf(readObject(remote, 'commit', commit).toString()),
      tree: treeSha,
    });
    if (copy.sha !== commit) throw new Error(`emulate's copy of commit ${commit} is ${copy.sha}`);
  }

  stop(): Promise<void> {
    return this.#stop();
  }
}

/** Exactly as it is stored. */
const readObject = (remote: GitRemote, type: string, sha: string): Buffer =>
  execFileSync('git', ['-C', remote.url, '-c', 'safe.directory=*', 'cat-file', type, sha]);

/** A commit in the form of the REST API. */
function commitOf(raw: string): Json {
  const end = raw.indexOf('\n\n');
  const lines = raw.slice(0, end).split('\n');
  const valuesOf = (name: string): string[] =>
    lines.filter((line) => line.startsWith(`${name} `)).map((line) => line.slice(name.length + 1));
  return {
    message: raw.slice(end + 2),
    parents: valuesOf('parent'),
    author: identityOf(valuesOf('author')[0] ?? ''),
    committer: identityOf(valuesOf('committer')[0] ?? ''),
  };
}

/** `Name <mail> 1700000000 +0100` */
function identityOf(text: string): Json {
  const [, name, email, seconds, sign, hours, minutes] =
    /^(.*) <(.*)> (\d+) ([+-])(\d\d)(\d\d)$/.exec(text) ?? [];
  const offset = (Number(hours) * 60 + Number(minutes)) * 60 * (sign === '-' ? -1 : 1);
  const local = new Date((Number(seconds) + offset) * 1000).toISOString().replace('.000Z', '');
  return { name, email, date: `${local}${sign}${hours}:${minutes}` };
}
