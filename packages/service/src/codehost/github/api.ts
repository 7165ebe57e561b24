import type { HostRule } from '../../lib/host-rules.ts';
import { type Headers, HostError, type RepoPath } from '../host.ts';
import { HttpClient, type HttpRequest } from '../http-client.ts';
import type { JsonReader } from '../json-reader.ts';
import { Limiter } from '../limiter.ts';
import { AppCredential, type GithubCredential, TokenCredential } from './credentials.ts';
import { endpointsOf, inRepo, type RestPaths } from './rest.ts';

export interface GithubOptions {
  /** The address that people use, such as `https://github.com`. */
  readonly url: string;
  readonly credential: { readonly token: string } | { readonly appId: string; readonly privateKey: string };
  readonly innerHosts: readonly HostRule[];
  readonly limiter?: Limiter;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

const headers = { accept: 'application/vnd.github+json', 'x-github-api-version': '2022-11-28' };

/** Secondary limits are not always visible in the headers. */
const isLimit = (message: string): boolean => /rate limit|abuse detection/i.test(message);

/** REST and GraphQL calls about a repository, with the credential for it. */
export class GithubApi {
  readonly rest: RestPaths;
  readonly client: HttpClient;
  readonly credential: GithubCredential;

  constructor({ url, credential, limiter = new Limiter(), ...options }: GithubOptions) {
    const { baseUrl, rest } = endpointsOf(url);
    this.rest = rest;
    const authorize = (): Promise<Headers> => Promise.reject(new Error('a call needs its own credential'));
    this.client = new HttpClient({ ...options, baseUrl, limiter, authorize, headers, isLimit });
    this.credential =
      'token' in credential
        ? new TokenCredential(credential.token, this.client, rest)
        : new AppCredential(credential.appId, credential.privateKey, this.client, rest);
  }

  /** Paths below a repository. */
  in(repo: RepoPath): RestPaths {
    return inRepo(this.rest, repo);
  }

  call<T>(repo: RepoPath, request: HttpRequest, read: (body: JsonReader, headers: Headers) => T): Promise<T> {
    return this.#authorized(repo, request, (authorized) => this.client.call(authorized, read));
  }

  list<T>(
    repo: RepoPath,
    request: HttpRequest,
    read: (item: JsonReader) => T,
    most: number,
    itemsOf?: (page: JsonReader) => readonly JsonReader[],
  ): Promise<T[]> {
    return this.#authorized(repo, request, (authorized) => this.client.list(authorized, read, most, itemsOf));
  }

  endOfText(repo: RepoPath, request: HttpRequest, bytes: number): Promise<string> {
    return this.#authorized(repo, request, (authorized) => this.client.endOfText(authorized, bytes));
  }

  graphql<T>(
    repo: RepoPath,
    operation: { readonly query: string; readonly variables: Readonly<Record<string, unknown>> },
    read: (data: JsonReader) => T,
  ): Promise<T> {
    const isWrite = operation.query.trimStart().startsWith('mutation');
    const request = { method: 'POST', path: '/graphql', body: operation, isWrite } as const;
    return this.call(repo, request, (body) => {
      const [error] = body.list('errors');
      if (error) throw graphqlError(error);
      return read(body.object('data'));
    });
  }

  /** A token can be revoked before it expires; a call that was refused with 401 has had no effect. */
  async #authorized<T>(
    repo: RepoPath,
    request: HttpRequest,
    call: (request: HttpRequest) => Promise<T>,
  ): Promise<T> {
    const authorized = { ...request, authorize: () => this.credential.authorize(repo) };
    try {
      return await call(authorized);
    } catch (error) {
      if (!(error instanceof HostError) || error.status !== 401) throw error;
      this.credential.forget(repo);
      if (this.credential.type === 'token') throw error;
      return call(authorized);
    }
  }
}

const statusOfType: Readonly<Record<string, number>> = {
  NOT_FOUND: 404,
  FORBIDDEN: 403,
  INSUFFICIENT_SCOPES: 403,
  UNPROCESSABLE: 422,
};

/** GraphQL reports errors with status 200. One without a type or code is a fault of the host, such as a timeout. */
function graphqlError(error: JsonReader): HostError {
  const type = error.textOrEmpty('type');
  const message = error.textOrEmpty('message');
  const text = `POST /graphql: ${type && `${type} `}${message}`;
  if (type === 'RATE_LIMITED' || isLimit(message)) return new HostError('limited', 429, text);
  const isKnown = type in statusOfType || error.find('extensions')?.textOrEmpty('code');
  return new HostError(isKnown ? 'refused' : 'unknown', statusOfType[type] ?? 200, text);
}
