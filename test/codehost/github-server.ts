import { createHmac, hash, randomUUID, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { GitRemote } from '../support/git-remote.ts';
import { canMerge } from './can-merge.ts';
import { DeliverySender } from './delivery-sender.ts';
import type { Caller, EmulatedGithub, Json, RestReply } from './emulated-github.ts';
import { answerWithFault, Faults } from './faults.ts';
import { isGitRequest, serveGit } from './git-server.ts';
import { executeGraphql } from './github-graphql.ts';
import { GithubThreads } from './github-threads.ts';

export interface GithubServerOptions {
  readonly repo: string;
  /** The folder of the bare repository. */
  readonly root: string;
  readonly remote: GitRemote;
  readonly emulated: EmulatedGithub;
  /** The token of the repository's owner. */
  readonly owner: string;
  readonly callers: readonly Caller[];
}

/**
 * The address of the tests' GitHub, with the paths of an Enterprise Server: `/api/v3` is emulate's REST API, corrected
 * and completed where it differs from GitHub's; `/api/graphql` executes GitHub's schema on the same state;
 * `/team/project.git` is git.
 */
export class GithubServer {
  readonly faults = new Faults();
  readonly deliveries = new DeliverySender();
  readonly threads: GithubThreads;
  /** The logs of jobs by their number; they are at another address, as GitHub's are. */
  readonly logs = new Map<string, string>();
  /** The check suites of check runs, which emulate does not keep. */
  readonly suites = new Map<number, number>();
  /** Statuses of commits in the older form. */
  readonly statuses = new Map<string, Json[]>();
  /** What users' tokens say they may do; empty for fine-grained tokens. */
  scopes = 'repo';
  /** Signs deliveries. */
  secret = '';
  /** Requests of the API: method, path, and the status of the answer. */
  readonly requests: { readonly request: string; readonly status: number }[] = [];
  /** Whether the webhook has the event `push`. */
  reportsPushes = false;
  /** How often it is asked for a pull request before it says whether there is a conflict. */
  computing = 0;
  /** The lines of the diff at comments on a path; emulate's are those of the whole file. */
  readonly hunks = new Map<string, string>();
  /** A second webhook of the repository. */
  second: { readonly url: string; readonly secret: string } | undefined;
  readonly #secondSender = new DeliverySender();
  /** Every token that an App got. */
  readonly installationTokens: string[] = [];
  /** How long they are valid, if not an hour. */
  tokenLifeMs: number | undefined;
  /** Every password that git sent, and what it may do. */
  readonly gitPasswords: { readonly password: string; readonly access: string }[] = [];
  /** The name that the repository was given: requests with the earlier one are redirected. */
  renamedTo = '';
  /** Called while git waits for a reply. */
  onGit: () => void = () => {};
  readonly #options: GithubServerOptions;
  readonly #callers = new Map<string, Caller>();
  /** The last commits of pull requests that were merged. */
  readonly mergedHeads = new Map<number, string>();
  /** The numbers of pull requests. */
  readonly #pulls = new Set<number>();
  readonly #server: Server;
  readonly #logServer: Server;

  constructor(options: GithubServerOptions) {
    this.#options = options;
    for (const caller of options.callers) this.#callers.set(caller.token, caller);
    this.#server = createServer((request, response) => void this.#serve(request, response));
    this.#logServer = createServer((request, response) => this.#serveLog(request, response));
    this.threads = new GithubThreads({
      ...options,
      shown: (link) => this.#shown(link),
      onResolved: async (number, thread, isResolved, caller) =>
        this.deliver('pull_request_review_thread', {
          ...(await this.context(caller, number)),
          action: isResolved ? 'resolved' : 'unresolved',
          thread: { node_id: thread, comments: [] },
        }),
    });
  }

  get url(): string {
    return urlOf(this.#server);
  }

  /** Where logs are. */
  get logUrl(): string {
    return urlOf(this.#logServer);
  }

  async start(): Promise<void> {
    for (const server of [this.#server, this.#logServer])
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  }

  async stop(): Promise<void> {
    for (const server of [this.#server, this.#logServer]) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  /** The tokens of installations stop working, as if they had been revoked. */
  revokeTokens(): void {
    for (const { token, login } of [...this.#callers.values()]) if (login === '') this.#callers.delete(token);
  }

  /** Sends a webhook as GitHub would. */
  deliver(event: string, body: Json): void {
    if (event === 'pull_request') this.#pulls.add(Number((body.pull_request as Json).number));
    const json = this.#shown(JSON.stringify(body));
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'GitHub-Hookshot/0000000',
      'x-github-event': event,
      'x-github-delivery': randomUUID(),
      'x-hub-signature-256': signatureOf(json, this.secret),
    };
    this.deliveries.send(headers, json);
    if (!this.second) return;
    this.#secondSender.to(this.second.url);
    const signed = { 'x-hub-signature-256': signatureOf(json, this.second.secret) };
    this.#secondSender.send({ ...headers, ...signed }, json);
  }

  /** What a delivery about a pull request has in common with others. */
  async context(caller: Caller | string, number: number): Promise<Json> {
    const { emulated, owner, repo } = this.#options;
    const login = typeof caller === 'string' ? caller : caller.login || 'muster[bot]';
    const user = await emulated.send(`Bearer ${owner}`, 'GET', `/users/${encodeURIComponent(login)}`);
    return {
      pull_request: await this.pull(number),
      repository: await emulated.call(owner, 'GET', `/repos/${repo}`),
      sender: user.status === 200 ? JSON.parse(user.body) : null,
    };
  }

  async pull(number: number): Promise<Json> {
    const { emulated, owner, repo } = this.#options;
    return this.#current(await emulated.call(owner, 'GET', `/repos/${repo}/pulls/${number}`));
  }

  async pulls(state: 'open' | 'all'): Promise<Json[]> {
    const { emulated, owner, repo } = this.#options;
    const path = `/repos/${repo}/pulls?per_page=100&state=${state}`;
    const found = await emulated.call<Json[]>(owner, 'GET', path);
    return found.map((pull) => this.#current(pull));
  }

  /** Brings emulate up to date with the bare repository, and reports pushes to open pull requests. */
  async mirror(token = this.#options.owner): Promise<void> {
    const { emulated, remote, repo } = this.#options;
    const changed = await emulated.mirror(repo, remote, token);
    if (changed.length === 0) return;
    for (const branch of this.reportsPushes ? changed : [])
      this.deliver('push', { ref: `refs/heads/${branch}`, repository: { full_name: repo }, sender: null });
    for (const pull of await this.pulls('open')) {
      const { ref, sha } = pull.head as Json;
      if (isFork(pull) || !changed.includes(String(ref))) continue;
      const caller = this.#callers.get(token) ?? '';
      const context = await this.context(caller, Number(pull.number));
      this.deliver('pull_request', { ...context, action: 'synchronize', number: pull.number, after: sha });
    }
  }

  /** Links of emulate become links of this server. */
  #shown(text: string): string {
    const { emulated, repo } = this.#options;
    const shown = text.replaceAll(emulated.linkOrigin, this.url);
    return this.renamedTo ? shown.replaceAll(repo, this.renamedTo) : shown;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const redirect = this.#resolveName(request);
      if (redirect) return void response.writeHead(...redirect).end('{}');
      if (isGitRequest(request)) return await this.#serveGit(request, response);
      const body = await text(request);
      const path = request.url ?? '';
      if (path === '/relay') {
        this.#relay(request, body);
        return void response.writeHead(202).end();
      }
      const fault = this.faults.take(request);
      if (fault && !fault.isAfter) return answerWithFault(fault, response);
      await this.mirror();
      const reply = await this.#answer(request, body);
      if (fault) return answerWithFault(fault, response);
      const { 'content-type': type = 'application/json', link, location } = reply.headers;
      const headers = { 'content-type': type, ...(link && { link }), ...(location && { location }) };
      const scopes = this.#callerOf(request)?.login ? { 'x-oauth-scopes': this.scopes } : {};
      const isRead = request.method === 'GET' && reply.status === 200;
      const shown = this.#shown(reply.body);
      const etag = isRead ? `"${hash('sha256', shown)}"` : undefined;
      const isSame = etag !== undefined && request.headers['if-none-match'] === etag;
      const status = isSame ? 304 : reply.status;
      this.requests.push({ request: `${request.method} ${path}`, status });
      response
        .writeHead(status, isSame ? { etag } : { ...headers, ...scopes, ...(etag && { etag }) })
        .end(isSame ? undefined : shown);
    } catch (error) {
      if (response.headersSent) response.destroy();
      else response.writeHead(500).end(JSON.stringify({ message: String(error) }));
    }
  }

  /** Case is ignored, the current name is that of the folder, and the earlier one leads to the number. */
  #resolveName(request: IncomingMessage): [status: number, headers: { location: string }] | null {
    const { repo } = this.#options;
    const [, before = '', name = '', after = ''] =
      /^(\/api\/v3\/repos\/|\/)([^/]+\/[^/?]+?)((?:\.git)?(?:[/?].*)?)$/.exec(request.url ?? '') ?? [];
    const isApi = before !== '/';
    if (this.renamedTo && name.toLowerCase() === repo) {
      const location = isApi
        ? `${this.url}/api/v3/repositories/1${after}`
        : `${this.url}/${this.renamedTo}${after}`;
      return [request.method === 'GET' ? 301 : 307, { location }];
    }
    const isIt = name.toLowerCase() === (this.renamedTo || repo);
    if (isIt && (isApi || after.startsWith('.git'))) request.url = `${before}${repo}${after}`;
    request.url = request.url?.replace(/^\/api\/v3\/repositories\/1(?=[/?]|$)/, `/api/v3/repos/${repo}`);
    return null;
  }

  #serveGit(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { root } = this.#options;
    return serveGit(request, response, {
      root,
      accessOf: (wanted, _username, password) => {
        this.onGit();
        const caller = this.#callers.get(password);
        const access = caller ? gitAccessOf(caller, wanted) : 'none';
        this.gitPasswords.push({ password, access });
        return access;
      },
      onPush: (_repo, password) => this.mirror(password),
    });
  }

  /** emulate's own deliveries: its signature is checked, and then they are sent on with links of this server. */
  #relay(request: IncomingMessage, body: string): void {
    const expected = Buffer.from(signatureOf(body, this.secret));
    const received = Buffer.from(String(request.headers['x-hub-signature-256']));
    if (expected.length !== received.length || !timingSafeEqual(expected, received))
      throw new Error('a delivery of emulate has a wrong signature');
    const event = String(request.headers['x-github-event']);
    const parsed = JSON.parse(body) as Json;
    // emulate leaves out what tells a pull request from an issue.
    const issue = parsed.issue as Json | undefined;
    const isPull = issue !== undefined && this.#pulls.has(Number(issue.number));
    // It reports the labels of pull requests as those of issues; the driver reports them as GitHub does.
    if (event === 'issues' && isPull) return;
    if (isPull)
      issue.pull_request = { url: `${this.url}/api/v3/repos/${this.#options.repo}/pulls/${issue.number}` };
    this.deliver(event, parsed);
  }

  #callerOf(request: IncomingMessage): Caller | undefined {
    return this.#callers.get((request.headers.authorization ?? '').replace(/^(Bearer|token) /i, ''));
  }

  async #answer(request: IncomingMessage, body: string): Promise<RestReply> {
    const authorization = request.headers.authorization ?? '';
    const caller = this.#callerOf(request);
    // The signature of an App's JWT is checked by emulate.
    const isApp = authorization.startsWith('Bearer eyJ');
    if (!caller && !isApp) return json(401, { message: 'Bad credentials' });
    const path = request.url ?? '';
    const { repo } = this.#options;
    const isAbout = path.startsWith(`/api/v3/repos/${repo}/`) || path === '/api/graphql';
    const isNarrow = caller?.login !== '' || caller.repositories.join() === repo.split('/')[1];
    if (isAbout && caller && !isNarrow) return json(403, { message: 'The token is for all repositories' });
    const [, current = ''] = this.renamedTo.split('/');
    if (path === '/api/graphql' && caller) {
      const query = current ? body.replaceAll(`"${current}"`, `"${repo.split('/')[1]}"`) : body;
      return json(200, await executeGraphql(JSON.parse(query), caller, this.threads));
    }
    if (!path.startsWith('/api/v3/')) return json(404, { message: 'Not Found' });
    // The latest of each name in each suite, not of each name.
    const rest = path.slice('/api/v3'.length).replace('filter=latest', 'filter=all');
    const own = caller && (await this.#answerItself(request.method ?? 'GET', rest, body));
    if (own) return own;
    const { emulated } = this.#options;
    const isToken = rest.endsWith('/access_tokens');
    if (isToken && current && body.includes(`"${repo.split('/')[1]}"`))
      return json(422, { message: 'There is at least one repository that does not exist' });
    const sent = isToken && current ? body.replaceAll(`"${current}"`, `"${repo.split('/')[1]}"`) : body;
    const reply = await emulated.send(authorization, request.method ?? 'GET', rest, sent || undefined);
    if (reply.status === 201 && isToken) return this.#newToken(reply, sent);
    const { link } = reply.headers;
    return {
      status: reply.status,
      headers: {
        ...reply.headers,
        ...(link && { link: link.replaceAll(emulated.origin, `${this.url}/api/v3`) }),
      },
      body: this.#corrected(rest, reply),
    };
  }

  #newToken(reply: RestReply, body: string): RestReply {
    const made = JSON.parse(reply.body) as Json;
    const { repositories = [] } = (body ? JSON.parse(body) : {}) as { repositories?: string[] };
    const token = String(made.token);
    const permissions = made.permissions as Record<string, string>;
    this.#callers.set(token, { token, login: '', permissions, repositories, role: 'read' });
    this.installationTokens.push(token);
    if (this.tokenLifeMs === undefined) return reply;
    const expiresAt = new Date(Date.now() + this.tokenLifeMs).toISOString();
    return { ...reply, body: JSON.stringify({ ...made, expires_at: expiresAt }) };
  }

  /** What emulate lacks. */
  async #answerItself(method: string, path: string, body: string): Promise<RestReply | undefined> {
    const { repo, emulated, owner, remote } = this.#options;
    const inRepo = path.startsWith(`/repos/${repo}/`) ? path.slice(`/repos/${repo}`.length) : '';
    const [, sha = '', what = ''] = /^\/commits\/([^/?]+)\/(status|pulls)/.exec(inRepo) ?? [];
    if (what === 'status') return json(200, { state: 'pending', statuses: this.statuses.get(sha) ?? [] });
    if (what === 'pulls') {
      if (/^0+$/.test(sha)) return json(422, { message: `No commit found for SHA: ${sha}` });
      const found = await this.pulls('all');
      return json(
        200,
        found.filter((pull) => (pull.head as Json).sha === sha),
      );
    }
    const [, job] = /^\/actions\/jobs\/(\d+)\/logs/.exec(inRepo) ?? [];
    if (job) {
      if (!this.logs.has(job)) return json(404, { message: 'Not Found' });
      const location = `${this.logUrl}/logs/${job}?sig=temporary`;
      return { status: 302, headers: { location }, body: '' };
    }
    const [, login] = /^\/collaborators\/([^/]+)\/permission/.exec(inRepo) ?? [];
    if (login) return this.#permission(decodeURIComponent(login));
    if (path.startsWith('/installation/repositories'))
      return json(200, { repositories: [await emulated.call(owner, 'GET', `/repos/${repo}`)] });
    if (method === 'POST' && inRepo === '/pulls') {
      const { head, base } = JSON.parse(body) as { head?: string; base?: string };
      if (head === undefined || base === undefined || head.includes(':')) return undefined;
      if (!remote.refs().includes(head)) return invalid(`head: ${head} does not exist`);
      const open = await this.pulls('open');
      const isSame = (pull: Json) => (pull.head as Json).ref === head && (pull.base as Json).ref === base;
      if (open.some(isSame)) return invalid(`A pull request already exists for ${head}.`);
    }
    return undefined;
  }

  /** GitHub has three values, and everybody may read a public repository. */
  async #permission(login: string): Promise<RestReply> {
    const { repo, emulated, owner } = this.#options;
    const found = await emulated.send(`Bearer ${owner}`, 'GET', `/users/${encodeURIComponent(login)}`);
    if (found.status !== 200) return json(404, { message: 'Not Found' });
    const path = `/repos/${repo}/collaborators/${encodeURIComponent(login)}/permission`;
    const reply = await emulated.send(`Bearer ${owner}`, 'GET', path);
    const given = reply.status === 200 ? String((JSON.parse(reply.body) as Json).permission) : 'pull';
    const permission = { admin: 'admin', maintain: 'write', push: 'write' }[given] ?? 'read';
    return json(200, { permission, role_name: permission, user: JSON.parse(found.body) });
  }

  #corrected(path: string, reply: RestReply): string {
    if (reply.status >= 300) return reply.body;
    if (/\/check-runs\/\d+\/annotations/.test(path))
      return JSON.stringify((JSON.parse(reply.body) as Json).check_annotations);
    if (/\/commits\/[^/]+\/check-runs/.test(path))
      return JSON.stringify(this.#withSuites(JSON.parse(reply.body)));
    if (/\/pulls\/\d+\/comments(\?|$)/.test(path))
      return JSON.stringify(this.#withHunks(JSON.parse(reply.body)));
    if (!/^\/repos\/[^/]+\/[^/]+\/pulls(\/\d+)?(\?|$)/.test(path)) return reply.body;
    const parsed = JSON.parse(reply.body) as Json | Json[];
    const isOne = /\/pulls\/\d+(\?|$)/.test(path);
    const pulls = Array.isArray(parsed)
      ? parsed.map((pull) => this.#current(pull))
      : this.#current(parsed, isOne);
    return JSON.stringify(pulls);
  }

  #withHunks(comments: Json[]): Json[] {
    const hunkOf = ({ path, diff_hunk: other }: Json) => this.hunks.get(String(path)) ?? other;
    return comments.map((comment) => ({ ...comment, diff_hunk: hunkOf(comment) }));
  }

  #withSuites(list: { check_runs: Json[] }): Json {
    const suiteOf = ({ id }: Json) => ({ id: this.suites.get(Number(id)) ?? 1 });
    return { ...list, check_runs: list.check_runs.map((run) => ({ ...run, check_suite: suiteOf(run) })) };
  }

  /** emulate keeps the commit that a pull request was opened with, and does not merge. */
  #current(pull: Json, isOne = false): Json {
    const { remote } = this.#options;
    const head = pull.head as Json;
    const ref = String(head.ref);
    const merged = this.mergedHeads.get(Number(pull.number));
    if (merged) return { ...pull, head: { ...head, sha: merged } };
    if (isFork(pull) || pull.state !== 'open' || !remote.refs().includes(ref)) return pull;
    const sha = remote.tip(ref);
    const mergeable = isOne ? this.#mergeable(String((pull.base as Json).ref), ref) : pull.mergeable;
    return { ...pull, head: { ...head, sha }, mergeable };
  }

  #mergeable(base: string, head: string): boolean | null {
    if (this.computing === 0) return canMerge(this.#options.remote, base, head);
    this.computing -= 1;
    return null;
  }

  /** Refuses a request with a credential, as the storage behind GitHub does. */
  #serveLog(request: IncomingMessage, response: ServerResponse): void {
    const [, job = ''] = /^\/logs\/(\d+)\?sig=temporary$/.exec(request.url ?? '') ?? [];
    const log = this.logs.get(job);
    if (request.headers.authorization || log === undefined) response.writeHead(400).end('invalid request');
    else response.writeHead(200, { 'content-type': 'text/plain' }).end(log);
  }
}

/** A token for git has to name the repository. */
function gitAccessOf(
  { login, role, permissions, repositories }: Caller,
  repo: string,
): 'none' | 'read' | 'write' {
  if (login !== '') return role;
  const isFor = repositories.length === 1 && repositories[0] === repo.split('/')[1];
  const { contents } = permissions;
  return isFor && (contents === 'read' || contents === 'write') ? contents : 'none';
}

const urlOf = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

const signatureOf = (body: string, secret: string): string =>
  `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;

const json = (status: number, body: unknown): RestReply => ({
  status,
  headers: {},
  body: JSON.stringify(body),
});

const invalid = (message: string): RestReply =>
  json(422, { message: 'Validation Failed', errors: [{ resource: 'PullRequest', message }] });

const isFork = (pull: Json): boolean =>
  ((pull.head as Json).repo as Json)?.id !== ((pull.base as Json).repo as Json).id;
