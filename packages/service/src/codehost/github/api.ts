import { type Headers, HostError } from '../../work/host-error.ts';
import { type ClientOptions, HttpClient, type HttpRequest, retryAfterMs } from '../../work/http-client.ts';
import type { JsonReader } from '../../work/json-reader.ts';
import type { RepoPath } from '../host.ts';
import { AppCredential, type GithubCredential, TokenCredential } from './credentials.ts';
import { endpointsOf, inRepo, type RestPaths } from './rest.ts';

export interface GithubOptions extends ClientOptions {
  /** The address that people use, such as `https://github.com`. */
  readonly url: string;
  readonly credential: { readonly token: string } | { readonly appId: string; readonly privateKey: string };
}

const sentHeaders = { accept: 'application/vnd.github+json', 'x-github-api-version': '2022-11-28' };

/** Secondary limits are not always visible in the headers. */
const isLimit = (message: string): boolean => /rate limit|abuse detection/i.test(message);

/** REST and GraphQL calls about a repository, with the credential for it. */
export class GithubApi {
  readonly rest: RestPaths;
  readonly client: HttpClient;
  readonly credential: GithubCredential;

  constructor({ url, credential, ...options }: GithubOptions) {
    const { baseUrl, rest } = endpointsOf(url);
    this.rest = rest;
    const authorize = (): Promise<Headers> => Promise.reject(new Error('a call needs its own credential'));
    this.client = new HttpClient({ ...options, baseUrl, authorize, headers: sentHeaders, isLimit });
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

  path(repo: RepoPath): Promise<RepoPath> {
    const request = { path: this.in(repo)``, authorize: () => this.credential.authorizeMetadata(repo) };
    return this.client.call(request, (found) => found.text('full_name'));
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
    return this.call(repo, request, (body, replyHeaders) => {
      const [error] = body.list('errors');
      if (error) throw graphqlError(error, replyHeaders);
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
function graphqlError(error: JsonReader, headers: Headers): HostError {
  const type = error.textOrEmpty('type');
  const message = error.textOrEmpty('message');
  const text = `POST /graphql: ${type && `${type} `}${message}`;
  if (type === 'RATE_LIMITED' || isLimit(message))
    return new HostError('limited', 429, text, retryAfterMs(headers));
  const isKnown = type in statusOfType || error.find('extensions')?.textOrEmpty('code');
  return new HostError(isKnown ? 'refused' : 'unknown', statusOfType[type] ?? 200, text);
}
