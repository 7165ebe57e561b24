import type { PolledLogin, StartedLogin } from '../contract/device-login.ts';
import type { SignedIn } from '../contract/identity.ts';
import { paths } from '../contract/paths.ts';
import type { ReplyOf, RouteName } from '../contract/routes.ts';
import { ConnectionError, errorOf, parseRetryAfter, UnknownError } from './errors.ts';
import { EventParser, type ServerSentEvent } from './event-parser.ts';

export interface ConnectionOptions {
  /** URL of the service, such as `http://127.0.0.1:8420`. */
  readonly url: string;
  /** Without a key, a page of the service calls with the browser's session cookie. */
  readonly apiKey?: string | undefined;
  /** The id of that session: if another session has replaced it, calls are UNAUTHENTICATED. */
  readonly session?: string | undefined;
  readonly fetch?: typeof fetch | undefined;
  /**
   * Called once for each field or query parameter that the service does not know: a misspelt name, or a service older
   * than this client. The default is a warning on the console.
   */
  readonly onIgnoredFields?: ((operation: RouteName, fields: readonly string[]) => void) | undefined;
  /** Called when the service succeeded with a warning. The default is a warning on the console. */
  readonly onWarning?: ((operation: RouteName, warning: string) => void) | undefined;
}

export interface Request {
  readonly body?: unknown;
  /** Sent as it is, instead of a JSON body. */
  readonly upload?: Uint8Array | Blob | undefined;
  readonly params?: Readonly<Record<string, string>> | undefined;
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
  /** For the whole reply, or, if it is long, for the next chunk. Without it only the signal ends the wait. */
  readonly timeoutMs?: number | undefined;
  readonly isLong?: boolean;
}

/** Error codes of Node, Bun and Deno for a connection that was not accepted. Browsers give no code. */
const unsentCodes =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused)$/;

/** Sends requests, each once, and reads the replies. */
export class Connection {
  readonly #url: string;
  readonly #apiKey: string | undefined;
  readonly #session: string | undefined;
  readonly #fetch: typeof fetch;
  readonly #onIgnoredFields: NonNullable<ConnectionOptions['onIgnoredFields']>;
  readonly #ignored = new Set<string>();
  readonly #onWarning: NonNullable<ConnectionOptions['onWarning']>;

  constructor(options: ConnectionOptions) {
    const { protocol } = new URL(options.url);
    if (protocol !== 'http:' && protocol !== 'https:')
      throw new TypeError(`url: expected http:// or https://; got "${options.url}"`);
    // Checked here, because the platform's own error would show the key.
    if (/[^\x21-\x7e]/.test(options.apiKey ?? ''))
      throw new TypeError('apiKey: contains a character that is not allowed in a header');
    this.#url = options.url.replace(/\/+$/, '');
    this.#apiKey = options.apiKey;
    this.#session = options.session;
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
    this.#onIgnoredFields = options.onIgnoredFields ?? warnOfIgnored;
    this.#onWarning = options.onWarning ?? warn;
  }

  async call<N extends RouteName>(name: N, request: Request): Promise<ReplyOf<N>> {
    const timeout = new AttemptTimeout(request.signal, request.timeoutMs);
    try {
      const response = await this.#send(name, request, timeout.signal);
      this.#expectType(response, 'json');
      let text = '';
      if (request.isLong) for await (const chunk of this.#chunks(request, response, timeout)) text += chunk;
      else text = await this.#read(request, () => response.text());
      // On some platforms a body that was cut off looks like an empty one.
      await this.#read(request, async () => timeout.signal.throwIfAborted());
      const value = parseJson(text);
      if (value === undefined) throw new ConnectionError(`a reply of ${this.#url} was cut off`);
      return value as ReplyOf<N>;
    } finally {
      timeout.release();
    }
  }

  /** The events of a stream until it ends, after a `null` when it is open. The stream is closed when the reader stops. */
  async *events(name: RouteName, request: Request): AsyncGenerator<ServerSentEvent | null, void, void> {
    const timeout = new AttemptTimeout(request.signal, request.timeoutMs);
    try {
      const response = await this.#send(name, request, timeout.signal);
      this.#expectType(response, 'event-stream');
      timeout.stop();
      yield null;
      const parser = new EventParser();
      for await (const chunk of this.#chunks(request, response, timeout)) yield* parser.push(chunk);
    } finally {
      timeout.abort();
    }
  }

  /** The timeout is stopped while the reader handles a chunk. */
  async *#chunks(request: Request, response: Response, timeout: AttemptTimeout) {
    const reader = response.body?.getReader();
    const decoder = new TextDecoder();
    for (;;) {
      timeout.restart();
      const chunk = await this.#read(request, async () => reader?.read());
      timeout.stop();
      if (chunk === undefined || chunk.done) return;
      yield decoder.decode(chunk.value, { stream: true });
    }
  }

  async #send(name: RouteName, request: Request, signal: AbortSignal): Promise<Response> {
    const { method, path } = paths[name];
    const { upload } = request;
    const filled = path.replace(/\{([^}]+)\}/g, (_, parameter: string) =>
      encodeURIComponent(request.params?.[parameter] ?? ''),
    );
    const query = request.query ? `?${new URLSearchParams(request.query)}` : '';
    const init: RequestInit = {
      method,
      headers: {
        ...(this.#apiKey !== undefined && { authorization: `Bearer ${this.#apiKey}` }),
        ...(this.#session !== undefined && { 'muster-session': this.#session }),
        ...(method === 'POST' && !upload && { 'content-type': 'application/json' }),
        ...request.headers,
      },
      ...(method === 'POST' && { body: (upload as BodyInit) ?? JSON.stringify(request.body ?? {}) }),
      signal,
    };
    const response = await this.#read(request, () => this.#fetch(`${this.#url}${filled}${query}`, init));
    this.#reportIgnored(name, response.headers.get('muster-ignored-fields'));
    const warning = response.headers.get('muster-warning');
    if (warning) this.#onWarning(name, warning);
    if (response.ok) return response;
    const text = await response.text().catch(() => '');
    request.signal?.throwIfAborted();
    throw errorOf(response.status, parseJson(text), parseRetryAfter(response.headers.get('retry-after')));
  }

  /** Any failure in here is one of the connection, unless the caller's signal aborted. */
  async #read<T>(request: Request, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      request.signal?.throwIfAborted();
      const { code } = ((error as Error).cause ?? {}) as { code?: unknown };
      const isUnsent = typeof code === 'string' && unsentCodes.test(code);
      const what = isUnsent ? `can't reach ${this.#url} (${code})` : `the connection to ${this.#url} broke`;
      throw new ConnectionError(what, { cause: error, isUnsent });
    }
  }

  #expectType(response: Response, type: 'json' | 'event-stream'): void {
    const given = response.headers.get('content-type') ?? '';
    if (given.includes(type)) return;
    const message = `${this.#url} answered with content type "${given}", expected ${type}: is it the URL of a Muster service?`;
    throw new UnknownError(response.status, { message });
  }

  #reportIgnored(name: RouteName, header: string | null): void {
    const fields = (header ?? '').split(', ').map(decode);
    const unreported = fields.filter((field) => field !== '' && !this.#ignored.has(`${name} ${field}`));
    if (unreported.length === 0) return;
    for (const field of unreported) this.#ignored.add(`${name} ${field}`);
    this.#onIgnoredFields(name, unreported);
  }
}

const warn = (operation: RouteName, warning: string): void =>
  console.warn(`muster: ${operation}: ${warning}`);

const warnOfIgnored = (operation: RouteName, fields: readonly string[]): void =>
  warn(operation, `the service ignored unknown fields: ${fields.join(', ')}`);

/** Undefined when the text is not JSON, or only the beginning of it. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function decode(field: string): string {
  try {
    return decodeURI(field);
  } catch {
    return field;
  }
}

/** Aborts one attempt when the caller's signal aborts, or when nothing arrives for the given time. */
class AttemptTimeout {
  readonly #controller = new AbortController();
  readonly #callerSignal: AbortSignal | undefined;
  readonly #ms: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(callerSignal: AbortSignal | undefined, ms: number | undefined) {
    callerSignal?.throwIfAborted();
    this.#callerSignal = callerSignal;
    this.#ms = ms;
    callerSignal?.addEventListener('abort', this.#onCallerAbort);
    this.restart();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  restart(): void {
    this.stop();
    if (this.#ms === undefined || this.#ms === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(() => this.#controller.abort(new Error(`no data for ${this.#ms} ms`)), this.#ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  release(): void {
    this.stop();
    this.#callerSignal?.removeEventListener('abort', this.#onCallerAbort);
  }

  /** Closes the connection if it is still open. */
  abort(): void {
    this.release();
    this.#controller.abort();
  }

  readonly #onCallerAbort = (): void => this.#controller.abort(this.#callerSignal?.reason);
}

export interface SignInSettings extends Pick<ConnectionOptions, 'fetch'>, Pick<Request, 'signal'> {}

/**
 * For a page of the service: signs this browser in with a key, the secret of a share link, or a one-time code. The
 * session is in a cookie that scripts can't read; a client without a key uses it. The request is sent once, because a
 * code works once: after a lost reply you need another code.
 */
export function signIn(
  url: string,
  credential:
    | { readonly code: string; readonly switchAccount?: boolean }
    | { readonly key: string; readonly share?: boolean },
  { fetch, signal }: SignInSettings = {},
): Promise<SignedIn> {
  const isKey = 'key' in credential;
  const connection = new Connection({ url, fetch, apiKey: isKey ? credential.key : undefined });
  const body = isKey
    ? { share: credential.share ?? false }
    : { code: credential.code, switchAccount: credential.switchAccount ?? false };
  return connection.call('signIn', { body, signal, timeoutMs: 30_000 });
}

/**
 * For a program without a key: asks for the code that a person approves. Then `pollLogin` gets the key. Both are sent
 * once.
 */
export const startLogin = (
  url: string,
  client: string,
  { fetch, signal }: SignInSettings = {},
): Promise<StartedLogin> =>
  new Connection({ url, fetch }).call('startLogin', { body: { client }, signal, timeoutMs: 30_000 });

/** Whether a person has approved; the reply says how long to wait until the next poll. A key is given once. */
export const pollLogin = (
  url: string,
  deviceCode: string,
  { fetch, signal }: SignInSettings = {},
): Promise<PolledLogin> =>
  new Connection({ url, fetch }).call('pollLogin', { body: { deviceCode }, signal, timeoutMs: 30_000 });
