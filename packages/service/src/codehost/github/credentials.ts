import { createPrivateKey, type KeyObject, sign } from 'node:crypto';
import { messageOf } from '../../lib/errors.ts';
import { type Headers, HostError } from '../../work/host-error.ts';
import type { HttpClient } from '../../work/http-client.ts';
import type { JsonReader } from '../../work/json-reader.ts';
import type { GitCredential, Person, RepoPath } from '../host.ts';
import { inRepo, personOf, type RestPaths } from './rest.ts';

/** What authenticates calls to GitHub: the installations of an App, or one token. */
export interface GithubCredential {
  readonly type: 'app' | 'token';
  authorize(repo: RepoPath): Promise<Headers>;
  /** For a repository by an earlier name, by which an App gets no token for it alone. */
  authorizeMetadata(repo: RepoPath): Promise<Headers>;
  /** A call with this credential was answered with 401: the next one gets a new token, if there can be one. */
  forget(repo: RepoPath): void;
  gitCredential(repo: RepoPath, isRefused: boolean): Promise<GitCredential>;
  self(): Promise<Person>;
  repositories(most: number): Promise<readonly RepoPath[]>;
}

/** GitHub accepts any user name with a token. */
const gitUsername = 'x-access-token';

export class TokenCredential implements GithubCredential {
  readonly type = 'token';
  readonly #headers: Headers;
  readonly #token: string;
  readonly #client: HttpClient;
  readonly #rest: RestPaths;

  constructor(token: string, client: HttpClient, rest: RestPaths) {
    this.#token = token;
    this.#headers = { authorization: `Bearer ${token}` };
    this.#client = client;
    this.#rest = rest;
  }

  async authorize(): Promise<Headers> {
    return this.#headers;
  }

  authorizeMetadata(): Promise<Headers> {
    return this.authorize();
  }

  forget(): void {}

  async gitCredential(): Promise<GitCredential> {
    return { username: gitUsername, password: this.#token, expiresAt: null };
  }

  self(): Promise<Person> {
    const request = { path: this.#rest`/user`, authorize: () => this.authorize() };
    return this.#client.call(request, personOf);
  }

  repositories(most: number): Promise<readonly RepoPath[]> {
    const request = {
      path: this.#rest`/user/repos`,
      query: { sort: 'pushed' },
      authorize: () => this.authorize(),
    };
    return this.#client.list(request, (repo) => repo.text('full_name'), most);
  }
}

/** Tokens are renewed this long before they expire, so that a call never starts with one that is about to. */
const renewBeforeMs = 5 * 60_000;
/** git gets a token that lasts for a long clone or push. */
const renewGitBeforeMs = 20 * 60_000;
/** GitHub allows ten minutes; its clock may be behind ours. */
const jwtLifeSeconds = 9 * 60;
const clockSkewSeconds = 60;
const mostInstallations = 10;
/** How long the installation of a repository, and its permissions, are cached. */
const installationMs = 5 * 60_000;
const mostRemembered = 10_000;

export interface Installation {
  readonly id: number;
  readonly permissions: Readonly<Record<string, string>>;
  readonly events: readonly string[];
  readonly isSuspended: boolean;
  readonly url: string;
}

interface InstallationToken {
  readonly token: string;
  readonly expiresAt: string;
}

/**
 * An App signs in with its private key and gets tokens that are valid for an hour. A token for calls about a repository
 * is limited to that repository, one for git also to its contents, and one for a whole installation to metadata.
 */
export class AppCredential implements GithubCredential {
  readonly type = 'app';
  readonly #appId: string;
  readonly #privateKey: string;
  #key: KeyObject | undefined;
  readonly #client: HttpClient;
  readonly #rest: RestPaths;
  readonly #installations = new Remembered<Installation>();
  readonly #tokens = new Remembered<InstallationToken>();
  #self: Promise<Person> | undefined;

  constructor(appId: string, privateKey: string, client: HttpClient, rest: RestPaths) {
    this.#appId = appId;
    this.#privateKey = privateKey;
    this.#client = client;
    this.#rest = rest;
  }

  async authorize(repo: RepoPath): Promise<Headers> {
    const { id } = await this.installation(repo);
    const narrowed = { repositories: [repo.split('/')[1] ?? ''] };
    const { token } = await this.#tokens.get(`${id} ${repo} API`, renewBeforeMs, () =>
      this.#newToken(id, narrowed),
    );
    return bearer(token);
  }

  async authorizeMetadata(repo: RepoPath): Promise<Headers> {
    return this.#asInstallation((await this.installation(repo)).id);
  }

  forget(repo: RepoPath): void {
    this.#installations.forget(repo);
    this.#tokens.clear();
  }

  async gitCredential(repo: RepoPath, isRefused: boolean): Promise<GitCredential> {
    if (isRefused) this.#installations.forget(repo);
    const { id, permissions } = await this.installation(repo);
    if (isRefused) this.#tokens.forget(`${id} ${repo}`);
    const workflows = permissions.workflows && { workflows: permissions.workflows };
    const narrowed = {
      repositories: [repo.split('/')[1] ?? ''],
      permissions: { contents: permissions.contents ?? 'read', metadata: 'read', ...workflows },
    };
    const { token, expiresAt } = await this.#tokens.get(`${id} ${repo}`, renewGitBeforeMs, () =>
      this.#newToken(id, narrowed),
    );
    return { username: gitUsername, password: token, expiresAt };
  }

  /** The account of what the App posts: `name[bot]`. */
  self(): Promise<Person> {
    this.#self ??= this.#findSelf().catch((error: unknown) => {
      this.#self = undefined;
      throw error;
    });
    return this.#self;
  }

  async repositories(most: number): Promise<readonly RepoPath[]> {
    const found: RepoPath[] = [];
    for (const { id } of await this.installations()) {
      const request = {
        path: this.#rest`/installation/repositories`,
        authorize: () => this.#asInstallation(id),
      };
      const itemsOf = (page: JsonReader) => page.list('repositories');
      found.push(...(await this.#client.list(request, (repo) => repo.text('full_name'), most, itemsOf)));
      if (found.length >= most) break;
    }
    return found.slice(0, most);
  }

  /** The installation that covers a repository. Rejects with status 404 if there is none. */
  installation(repo: RepoPath): Promise<Installation> {
    const request = { path: inRepo(this.#rest, repo)`/installation`, authorize: this.#asApp };
    return this.#installations.get(repo, 0, () => this.#client.call(request, installationOf));
  }

  /** The name of the App in URLs. Rejects if its id or private key is wrong. */
  slug(): Promise<string> {
    const request = { path: this.#rest`/app`, authorize: this.#asApp };
    return this.#client.call(request, (app) => app.text('slug'));
  }

  installations(): Promise<readonly Installation[]> {
    const request = { path: this.#rest`/app/installations`, authorize: this.#asApp };
    return this.#client.list(request, installationOf, mostInstallations);
  }

  async #findSelf(): Promise<Person> {
    const slug = await this.slug();
    const [first] = await this.installations();
    if (!first)
      throw new HostError(
        'refused',
        404,
        `the GitHub App ${slug} is not installed on any account; install it`,
      );
    const request = {
      path: this.#rest`/users/${`${slug}[bot]`}`,
      authorize: () => this.#asInstallation(first.id),
    };
    return this.#client.call(request, personOf);
  }

  /** For what is not about one repository. */
  async #asInstallation(id: number): Promise<Headers> {
    const narrowed = { permissions: { metadata: 'read' } };
    const { token } = await this.#tokens.get(String(id), renewBeforeMs, () => this.#newToken(id, narrowed));
    return bearer(token);
  }

  #newToken(id: number, body: unknown): Promise<InstallationToken & Expiring> {
    const request = {
      method: 'POST',
      path: this.#rest`/app/installations/${id}/access_tokens`,
      body,
      authorize: this.#asApp,
      isWrite: false,
    } as const;
    return this.#client.call(request, (reply) => {
      const expiresAt = reply.text('expires_at');
      return { token: reply.text('token'), expiresAt, untilMs: Date.parse(expiresAt) };
    });
  }

  readonly #asApp = async (): Promise<Headers> => {
    this.#key ??= rsaKey(this.#privateKey);
    const now = Math.floor(Date.now() / 1000);
    const claims = { iat: now - clockSkewSeconds, exp: now + jwtLifeSeconds, iss: this.#appId };
    const unsigned = `${encoded({ alg: 'RS256', typ: 'JWT' })}.${encoded(claims)}`;
    const signature = sign('sha256', Buffer.from(unsigned), this.#key).toString('base64url');
    return { authorization: `Bearer ${unsigned}.${signature}` };
  };
}

const bearer = (token: string): Headers => ({ authorization: `Bearer ${token}` });

const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A key on one line, with \n for its line breaks, is a common result of passing it through the environment. */
function rsaKey(pem: string): KeyObject {
  try {
    const key = createPrivateKey(pem.replaceAll('\\n', '\n'));
    if (key.asymmetricKeyType === 'rsa') return key;
    throw new Error(`it is a key for ${key.asymmetricKeyType}`);
  } catch (error) {
    const text = `\`privateKey\`: expected the RSA private key of the GitHub App as a PEM file; ${messageOf(error)}`;
    throw new HostError('refused', 0, text);
  }
}

function installationOf(reply: JsonReader): Installation {
  const permissions = reply.object('permissions').value as Record<string, unknown>;
  const { events } = reply.value as { events?: unknown };
  return {
    id: reply.number('id'),
    permissions: Object.fromEntries(
      Object.entries(permissions).map(([name, access]) => [name, String(access)]),
    ),
    events: Array.isArray(events) ? events.map(String) : [],
    isSuspended: reply.textOrEmpty('suspended_at') !== '',
    url: reply.url('html_url'),
  };
}

interface Expiring {
  readonly untilMs?: number;
}

/** Values by name until they expire; calls for the same one at the same time share one request. */
class Remembered<T> {
  readonly #values = new Map<string, Promise<T & Expiring>>();

  async get(name: string, renewEarlierMs: number, find: () => Promise<T & Expiring>): Promise<T> {
    const finding = this.#values.get(name);
    const known = await finding?.catch(() => undefined);
    if (known && Date.now() < (known.untilMs ?? 0) - renewEarlierMs) return known;
    // Another call may have started to renew it.
    return this.#values.get(name) === finding ? this.#find(name, find) : this.get(name, renewEarlierMs, find);
  }

  forget(name: string): void {
    this.#values.delete(name);
  }

  clear(): void {
    this.#values.clear();
  }

  #find(name: string, find: () => Promise<T & Expiring>): Promise<T> {
    const finding = find().then((value) => ({ untilMs: Date.now() + installationMs, ...value }));
    if (this.#values.size >= mostRemembered) this.#values.clear();
    this.#values.set(name, finding);
    finding.catch(() => this.#values.delete(name));
    return finding;
  }
}
