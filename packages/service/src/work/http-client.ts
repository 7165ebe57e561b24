import { Agent, type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps, Agent as SecureAgent } from 'node:https';
import { messageOf } from '../lib/errors.ts';
import type { HostRule } from '../lib/host-rules.ts';
import { isObject } from '../lib/json.ts';
import { refuseSmallParts } from '../lib/small-parts.ts';
import { checkedLookup, refuseInnerAddress } from './checked-lookup.ts';
import { type Headers, HostError } from './host-error.ts';
import { type HostJson, type ParseReply, parseReply } from './host-json.ts';
import { JsonReader } from './json-reader.ts';
import { keptReplies } from './kept-replies.ts';
import { Limiter } from './limiter.ts';
import { countCall, spend } from './reply-budget.ts';

/** What does not depend on the API. */
export interface ClientOptions {
  /** Hosts that may have an address of an internal network. */
  readonly innerHosts: readonly HostRule[];
  readonly limiter?: Limiter;
  readonly timeoutMs?: number;
  /** Ends all calls. */
  readonly signal?: AbortSignal;
  /** Parses a reply; by default on this thread. */
  readonly parse?: ParseReply;
}

export interface HttpClientOptions extends ClientOptions {
  /** Of the API, such as `https://api.github.com`. */
  readonly baseUrl: string;
  /** The headers with the credential. */
  readonly authorize: () => Promise<Headers>;
  /** Sent with every request. */
  readonly headers?: Headers;
  /** Whether a 403 whose headers do not say so is a limit. */
  readonly isLimit?: (message: string) => boolean;
}

export interface HttpRequest {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below the base URL, made with `urlPath`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly headers?: Headers;
  /** Instead of the client's own credential. */
  readonly authorize?: () => Promise<Headers>;
  /** Whether it changes something; by default every method but GET does. */
  readonly isWrite?: boolean;
}

const defaultTimeoutMs = 10_000;
/** A log is larger than what it is read for. */
const logTimeoutMs = 60_000;
const mostLogBytes = 256 * 1024 * 1024;
const mostJsonBytes = 16 * 1024 * 1024;
const pageSize = 100;
/** A host that asks for more is asked again after this time. */
const longestPauseMs = 60 * 60_000;
/** An idle connection is closed after this time, before hosts close it themselves. */
const idleMs = 4_000;

/**
 * Encodes the values in a path: urlPath`/repos/${owner}/${name}`. A value that would leave its place in the path is
 * refused.
 */
export function urlPath(parts: TemplateStringsArray, ...values: readonly (string | number)[]): string {
  return String.raw(
    { raw: parts },
    ...values.map((value) => {
      const text = String(value);
      if (text === '' || text === '.' || text === '..')
        throw new HostError('refused', 0, `${JSON.stringify(text)} can't be part of the path of a request`);
      return encodeURIComponent(text);
    }),
  );
}

let clients = 0;

/**
 * JSON over HTTP to the API of a code host. Every failure is a `HostError`. A redirect within the API is followed,
 * because hosts redirect from the earlier name of a repository. A redirect to another origin is followed only to a
 * log, and without the credential. Names are checked when they are resolved, so a name that later leads into an
 * internal network is refused too.
 */
export class HttpClient {
  readonly #options: HttpClientOptions;
  readonly #limiter: Limiter;
  /** Replies to one client are not used for another, which has another credential. */
  readonly #number = ++clients;
  /** Without a final slash. */
  readonly #base: string;
  readonly #agents: { readonly http: Agent; readonly https: SecureAgent };

  constructor(options: HttpClientOptions) {
    this.#options = options;
    this.#limiter = options.limiter ?? new Limiter();
    this.#base = new URL(options.baseUrl).href.replace(/\/$/, '');
    const agentOptions = { keepAlive: true, timeout: idleMs };
    this.#agents = { http: new Agent(agentOptions), https: new SecureAgent(agentOptions) };
  }

  /** Sends a request and reads its reply; `read` gets null if the reply has no body. */
  async call<T>(request: HttpRequest, read: (body: JsonReader, headers: Headers) => T): Promise<T> {
    return this.#limited(request, async (credential) => {
      const { bytes, headers, status } = await this.#reply(request, credential);
      try {
        const json = await this.#parsed(bytes);
        spend(json, nameOf(request));
        return read(new JsonReader(json.value), headers);
      } catch (error) {
        if (error instanceof HostError) throw error;
        const text = `${nameOf(request)}: unexpected reply: ${messageOf(error)}`;
        throw new HostError('unknown', status, text);
      }
    });
  }

  /** A reply that is kept is used again if the host says that it has not changed, which does not count for its limits. */
  async #reply(
    request: HttpRequest,
    credential: Headers,
  ): Promise<{ readonly bytes: Buffer; readonly headers: Headers; readonly status: number }> {
    const url = this.#urlOf(request);
    const key = request.method === undefined || request.method === 'GET' ? `${this.#number} ${url}` : '';
    const kept = keptReplies.find(key);
    const exchange = this.#exchange(request, url, this.#options.timeoutMs ?? defaultTimeoutMs);
    const reply = await exchange.send({ ...credential, ...(kept && { 'if-none-match': kept.etag }) });
    const bytes = await exchange.body(reply);
    const headers = reply.headers as Headers;
    if (kept && reply.statusCode === 304)
      return { bytes: kept.bytes, headers: { ...headers, link: kept.link }, status: 200 };
    countCall();
    if (!isSuccess(reply)) throw await this.#failure(request, reply, bytes);
    const { etag, link } = headers;
    if (key && etag) keptReplies.keep(key, { etag, link, bytes });
    return { bytes, headers, status: reply.statusCode ?? 0 };
  }

  /** All pages of a list, up to `most` entries. `itemsOf` finds the list in a page that is an object. */
  async list<T>(
    request: HttpRequest,
    read: (item: JsonReader) => T,
    most: number,
    itemsOf: (page: JsonReader) => readonly JsonReader[] = (page) => page.items(),
  ): Promise<T[]> {
    const found: T[] = [];
    let next: HttpRequest | null = { ...request, query: { per_page: pageSize, ...request.query } };
    while (next !== null && found.length < most) {
      const current: HttpRequest = next;
      const page = await this.call(current, (body, headers) => ({
        items: itemsOf(body)
          .slice(0, most - found.length)
          .map(read),
        next: nextPage(headers.link),
      }));
      found.push(...page.items);
      next = page.next && page.items.length > 0 ? { ...current, query: page.next } : null;
    }
    return found;
  }

  /** The last bytes of a text. One redirect is followed, without the credential: hosts keep logs elsewhere. */
  async endOfText(request: HttpRequest, bytes: number): Promise<string> {
    return this.#limited(request, async (credential) => {
      const url = this.#urlOf(request);
      let exchange = this.#exchange(request, url, logTimeoutMs);
      let reply = await exchange.send(credential);
      if (isRedirect(reply)) {
        reply.destroy();
        exchange = this.#exchange(request, redirectTarget(request, reply, url), logTimeoutMs);
        reply = await exchange.send({});
      }
      if (!isSuccess(reply)) throw await this.#failure(request, reply, await exchange.body(reply));
      return exchange.end(reply, bytes);
    });
  }

  /** Closes idle connections. */
  close(): void {
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }

  #urlOf(request: HttpRequest): URL {
    const url = new URL(`${this.#base}${request.path}`);
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    return url;
  }

  /** The credential is asked for first: a new one may take a call with the same limiter. */
  async #limited<T>(request: HttpRequest, call: (credential: Headers) => Promise<T>): Promise<T> {
    const { signal, authorize } = this.#options;
    const credential = await (request.authorize ?? authorize)();
    return this.#limiter.run(request.isWrite ?? isWriting(request), () => call(credential), signal);
  }

  #exchange(request: HttpRequest, url: URL, timeoutMs: number): Exchange {
    const { innerHosts, headers, signal } = this.#options;
    const agent = url.protocol === 'https:' ? this.#agents.https : this.#agents.http;
    const base = this.#base;
    return new Exchange(request, url, { base, innerHosts, agent, timeoutMs, headers: headers ?? {}, signal });
  }

  async #parsed(bytes: Buffer): Promise<HostJson> {
    if (bytes.length === 0) return { value: null, values: 0, characters: 0 };
    return (this.#options.parse ?? parseReply)(bytes);
  }

  async #failure(request: HttpRequest, reply: IncomingMessage, bytes: Buffer): Promise<HostError> {
    const { statusCode: status = 0, headers } = reply;
    const said = await this.#parsed(bytes).then(
      ({ value }) => messageIn(value),
      () => '',
    );
    // GitLab begins with the status itself.
    const needed = status === 403 ? headers['x-accepted-github-permissions'] : undefined;
    const text = [
      `${nameOf(request)}: ${said.startsWith(`${status} `) ? said : `${status} ${said}`.trim()}`,
      ...(needed ? [`it needs the permission ${String(needed).slice(0, mostMessageLength)}`] : []),
    ].join('; ');
    const isLimit =
      headers['retry-after'] !== undefined ||
      headers['x-ratelimit-remaining'] === '0' ||
      this.#options.isLimit?.(said) === true;
    if (status === 429 || (status === 403 && isLimit))
      return new HostError('limited', status, text, retryAfterMs(headers as Headers));
    if (status >= 300 && status < 400) return new HostError('refused', status, `${text}: ${noRedirects}`);
    return new HostError(status >= 400 && status < 500 ? 'refused' : 'unknown', status, text);
  }
}

interface ExchangeOptions {
  /** Of the API: redirects to addresses below it are followed. */
  readonly base: string;
  readonly innerHosts: readonly HostRule[];
  readonly agent: Agent;
  readonly timeoutMs: number;
  readonly headers: Headers;
  readonly signal: AbortSignal | undefined;
}

/** One request and its reply, within one time limit. */
class Exchange {
  readonly #request: HttpRequest;
  #url: URL;
  readonly #options: ExchangeOptions;
  readonly #timeout: AbortSignal;

  constructor(request: HttpRequest, url: URL, options: ExchangeOptions) {
    this.#request = request;
    this.#url = url;
    this.#options = options;
    this.#timeout = AbortSignal.timeout(options.timeoutMs);
  }

  async send(credential: Headers): Promise<IncomingMessage> {
    for (let redirects = 0; ; redirects += 1) {
      const reply = await this.#send(credential);
      const next = redirects < mostRedirects ? this.#redirectInApi(reply) : null;
      if (!next) return reply;
      reply.destroy();
      this.#url = next;
    }
  }

  /** A request that changes something is sent again only if the host says that its method stays. */
  #redirectInApi({ statusCode = 0, headers }: IncomingMessage): URL | null {
    const keepsMethod = statusCode === 307 || statusCode === 308;
    const isRead = !isWriting(this.#request) && (statusCode === 301 || statusCode === 302);
    const location = headers.location ?? '';
    if (!(keepsMethod || isRead) || !URL.canParse(location, this.#url.href)) return null;
    const target = new URL(location, this.#url);
    if (!target.search) target.search = this.#url.search;
    return target.href.startsWith(`${this.#options.base}/`) && !target.username && !target.password
      ? target
      : null;
  }

  async #send(credential: Headers): Promise<IncomingMessage> {
    const { innerHosts, agent, signal, headers } = this.#options;
    const isSecure = this.#url.protocol === 'https:';
    const target = { host: this.#url.hostname, port: Number(this.#url.port || (isSecure ? 443 : 80)) };
    refuseInnerAddress(target, innerHosts);
    const { method = 'GET', body } = this.#request;
    const json = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    try {
      const sending = (isSecure ? requestHttps : requestHttp)(this.#url, {
        method,
        agent,
        headers: present({
          accept: 'application/json',
          'user-agent': 'muster',
          'content-length': json || method !== 'GET' ? String(json?.length ?? 0) : undefined,
          'content-type': json && 'application/json',
          ...headers,
          ...this.#request.headers,
          ...credential,
        }),
        lookup: checkedLookup(target, innerHosts),
        signal: signal ? AbortSignal.any([signal, this.#timeout]) : this.#timeout,
      });
      return await replyTo(sending, json);
    } catch (error) {
      throw this.#cut(error);
    }
  }

  async body(reply: IncomingMessage): Promise<Buffer> {
    const chunks: Buffer[] = [];
    await this.#read(reply, mostJsonBytes, (chunk) => chunks.push(chunk));
    return Buffer.concat(chunks);
  }

  async end(reply: IncomingMessage, bytes: number): Promise<string> {
    const chunks: Buffer[] = [];
    let size = 0;
    await this.#read(reply, mostLogBytes, (chunk) => {
      chunks.push(chunk);
      size += chunk.length;
      while (size - (chunks[0]?.length ?? 0) >= bytes) size -= chunks.shift()?.length ?? 0;
    });
    const text = Buffer.concat(chunks).subarray(-bytes).toString();
    // The first character may have been cut.
    return size > bytes ? text.replace(/^\ufffd+/, '') : text;
  }

  async #read(reply: IncomingMessage, mostBytes: number, take: (chunk: Buffer) => void): Promise<void> {
    let size = 0;
    try {
      for await (const chunk of reply as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > mostBytes) throw new Error(`the reply has more than ${mostBytes} bytes`);
        take(chunk);
      }
    } catch (error) {
      throw this.#cut(error, reply.statusCode);
    }
  }

  /** No complete reply. */
  #cut(error: unknown, status = 0): HostError {
    if (error instanceof HostError) return error;
    const { code } = error as NodeJS.ErrnoException;
    const why = this.#timeout.aborted
      ? `no complete reply within ${this.#options.timeoutMs / 1000} s`
      : `${messageOf(error)}${code && !messageOf(error).includes(code) ? ` (${code})` : ''}`;
    return new HostError('unknown', status, `${nameOf(this.#request)} at ${this.#url.host}: ${why}`);
  }
}

function replyTo(sending: ClientRequest, body: Buffer | undefined): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    // Later errors reject the read of the body.
    sending.on('error', reject);
    sending.on('response', (reply) => {
      refuseSmallParts(reply);
      resolve(reply);
    });
    sending.end(body);
  });
}

/** Node refuses headers that are undefined. */
const present = (headers: Headers): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );

const isWriting = ({ method = 'GET' }: HttpRequest): boolean => method !== 'GET';

const isSuccess = ({ statusCode = 0 }: IncomingMessage): boolean => statusCode >= 200 && statusCode < 300;

const isRedirect = ({ statusCode = 0 }: IncomingMessage): boolean => statusCode >= 300 && statusCode < 400;

const nameOf = ({ method = 'GET', path }: HttpRequest): string => `${method} ${path.split('?')[0]}`;

const noRedirects = 'only redirects within its API are followed; use the current address of the host';

/** Never from https to http. */
function redirectTarget(request: HttpRequest, reply: IncomingMessage, from: URL): URL {
  const location = reply.headers.location ?? '';
  const target = URL.canParse(location, from.href) ? new URL(location, from) : null;
  if (target && (target.protocol === 'https:' || target.protocol === from.protocol)) return target;
  const text = `${nameOf(request)}: the address of the redirect is not usable`;
  throw new HostError('refused', reply.statusCode ?? 0, text);
}

const mostRedirects = 3;

const mostMessageLength = 300;
const mostMessages = 20;

/** What a host says about a failure, in the fields that it is usually in. */
function messageIn(body: unknown): string {
  if (!isObject(body)) return '';
  const { message, error, error_description: description, errors } = body;
  const details = Array.isArray(errors) ? errors.slice(0, mostMessages) : [];
  return [message, error, description, ...details.map((item) => (isObject(item) ? item.message : item))]
    .filter((text) => typeof text === 'string')
    .map((text) => text.slice(0, mostMessageLength))
    .join('; ')
    .slice(0, mostMessageLength);
}

/** How long a host asks to wait; 0 if it does not say. */
export function retryAfterMs(headers: Headers): number {
  const after = headers['retry-after'];
  const resetAt = Number(headers['x-ratelimit-reset'] ?? headers['ratelimit-reset']) * 1000;
  const until = after === undefined ? resetAt : Date.parse(after);
  const waitMs = /^\d+$/.test(after ?? '') ? Number(after) * 1000 : until - Date.now();
  return Number.isFinite(waitMs) ? Math.min(Math.max(waitMs, 1_000), longestPauseMs) : 0;
}

/**
 * The query of the link with `rel="next"` of a `Link` header. The host name and path of the link are not used: a host
 * may know itself under another name than the one in our URL.
 */
function nextPage(header: string | undefined): Record<string, string> | null {
  const next = (header ?? '').split(',').find((part) => /;\s*rel="?next"?/.test(part));
  if (next === undefined) return null;
  const link = /<([^>]*)>/.exec(next)?.[1] ?? '';
  if (!URL.canParse(link, 'http://host'))
    throw new TypeError(`the link to the next page is not a URL: ${link}`);
  return Object.fromEntries(new URL(link, 'http://host').searchParams);
}
