import { paths } from '../contract/paths.ts';
import type { ReplyOf, RouteName } from '../contract/routes.ts';
import { ConnectionError, errorOf, UnknownError } from './errors.ts';
import { EventParser, type ServerSentEvent } from './event-parser.ts';
import { Leash } from './leash.ts';
import { retryAfterMs } from './retry-after.ts';

export interface ConnectionOptions {
  /** Of the service, such as `http://127.0.0.1:8420`. */
  readonly url: string;
  /** Without one, a page of the service calls with the session cookie of its browser. */
  readonly apiKey?: string | undefined;
  /** The id of that session: if another one has taken its place, calls are UNAUTHENTICATED. */
  readonly session?: string | undefined;
  readonly fetch?: typeof fetch | undefined;
  /**
   * Told once of each field or query parameter that the service does not know. By default a warning on the console:
   * mostly it is a misspelt name, or a service older than this client.
   */
  readonly onIgnoredFields?: ((operation: RouteName, fields: readonly string[]) => void) | undefined;
  /** Told when the service did what was asked, but not as it may have been meant. By default a line on the console. */
  readonly onWarning?: ((operation: RouteName, warning: string) => void) | undefined;
}

/** One request, to be sent once. */
export interface Sent {
  readonly body?: unknown;
  readonly params?: Readonly<Record<string, string>> | undefined;
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
  /** For the whole reply, or, if it is long, for the next piece of it. Without it only the signal ends the wait. */
  readonly timeoutMs?: number | undefined;
  readonly isLong?: boolean;
}

/** Node, Bun and Deno say so when nobody took the connection. Browsers never tell. */
const unsentCodes =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused)$/;

/** Puts requests on the wire and reads what comes back, one try at a time. */
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
      throw new TypeError('url must begin with http:// or https://');
    // The platform's own complaint would quote the key.
    if (/[^\x21-\x7e]/.test(options.apiKey ?? ''))
      throw new TypeError('apiKey has a character that no header carries');
    this.#url = options.url.replace(/\/+$/, '');
    this.#apiKey = options.apiKey;
    this.#session = options.session;
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
    this.#onIgnoredFields = options.onIgnoredFields ?? warnOfIgnored;
    this.#onWarning = options.onWarning ?? warn;
  }

  /** The reply of an operation; leading white space, by which a long one is kept open, does not matter. */
  async ask<N extends RouteName>(name: N, sent: Sent): Promise<ReplyOf<N>> {
    const leash = new Leash(sent.signal, sent.timeoutMs);
    try {
      const response = await this.#send(name, sent, leash.signal);
      this.#expectType(response, 'json');
      const text = await this.#read(sent, async () => {
        const whole = await (sent.isLong ? readInPieces(response, leash.renew) : response.text());
        // Some platforms take a body that was cut off for an empty one.
        leash.signal.throwIfAborted();
        return whole;
      });
      return this.#parse(text) as ReplyOf<N>;
    } finally {
      leash.release();
    }
  }

  /** The events of a stream, until it ends; `null` when it is open. Whoever stops reading closes it. */
  async *events(name: RouteName, sent: Sent): AsyncGenerator<ServerSentEvent | null, void, void> {
    const leash = new Leash(sent.signal, sent.timeoutMs);
    try {
      const response = await this.#send(name, sent, leash.signal);
      this.#expectType(response, 'event-stream');
      leash.rest();
      yield null;
      const parser = new EventParser();
      const decoder = new TextDecoder();
      const reader = response.body?.getReader();
      for (;;) {
        leash.renew();
        const piece = await this.#read(sent, async () => reader?.read());
        leash.rest();
        if (piece === undefined || piece.done) return;
        yield* parser.push(decoder.decode(piece.value, { stream: true }));
      }
    } finally {
      leash.cut();
    }
  }

  async #send(name: RouteName, sent: Sent, signal: AbortSignal): Promise<Response> {
    const { method, path } = paths[name];
    const filled = path.replace(/\{([^}]+)\}/g, (_, parameter: string) =>
      encodeURIComponent(sent.params?.[parameter] ?? ''),
    );
    const query = sent.query ? `?${new URLSearchParams(sent.query)}` : '';
    const request: RequestInit = {
      method,
      headers: {
        ...(this.#apiKey !== undefined && { authorization: `Bearer ${this.#apiKey}` }),
        ...(this.#session !== undefined && { 'muster-session': this.#session }),
        ...(method === 'POST' && { 'content-type': 'application/json' }),
        ...sent.headers,
      },
      ...(method === 'POST' && { body: JSON.stringify(sent.body ?? {}) }),
      signal,
    };
    const response = await this.#read(sent, () => this.#fetch(`${this.#url}${filled}${query}`, request));
    this.#noteIgnored(name, response.headers.get('muster-ignored-fields'));
    const warning = response.headers.get('muster-warning');
    if (warning) this.#onWarning(name, warning);
    if (response.ok) return response;
    const text = await response.text().catch(() => '');
    sent.signal?.throwIfAborted();
    throw errorOf(response.status, parsed(text), retryAfterMs(response.headers.get('retry-after')));
  }

  /** Whatever fails here is the connection, unless the caller gave up. */
  async #read<T>(sent: Sent, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      sent.signal?.throwIfAborted();
      const { code } = ((error as Error).cause ?? {}) as { code?: unknown };
      const isUnsent = typeof code === 'string' && unsentCodes.test(code);
      const what = isUnsent ? `can't reach ${this.#url} (${code})` : `the connection to ${this.#url} broke`;
      throw new ConnectionError(what, { cause: error, isUnsent });
    }
  }

  #parse(text: string): unknown {
    const value = parsed(text);
    if (value === undefined) throw new ConnectionError(`a reply of ${this.#url} was cut off`);
    return value;
  }

  #expectType(response: Response, type: 'json' | 'event-stream'): void {
    const given = response.headers.get('content-type') ?? '';
    if (given.includes(type)) return;
    const message = `${this.#url} answers with ${given || 'no type'}: is it the address of a Muster service?`;
    throw new UnknownError(response.status, { message });
  }

  #noteIgnored(name: RouteName, header: string | null): void {
    const fields = (header ?? '').split(', ').map(decoded);
    const news = fields.filter((field) => field !== '' && !this.#ignored.has(`${name} ${field}`));
    if (news.length === 0) return;
    for (const field of news) this.#ignored.add(`${name} ${field}`);
    this.#onIgnoredFields(name, news);
  }
}

const warn = (operation: RouteName, warning: string): void =>
  console.warn(`muster: ${operation}: ${warning}`);

const warnOfIgnored = (operation: RouteName, fields: readonly string[]): void =>
  warn(operation, `the service does not know ${fields.join(', ')}`);

async function readInPieces(response: Response, onPiece: () => void): Promise<string> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const piece = await reader?.read();
    if (piece === undefined || piece.done) return text + decoder.decode();
    onPiece();
    text += decoder.decode(piece.value, { stream: true });
  }
}

/** Undefined when it is no JSON, or only the beginning of it. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function decoded(field: string): string {
  try {
    return decodeURI(field);
  } catch {
    return field;
  }
}
