import type { Api } from './api.ts';

export interface ServerSentEvent<T> {
  readonly id: string;
  readonly type: string;
  readonly data: T;
}

/** A Server-Sent Events reply read as it arrives. */
export class EventStream<T> {
  readonly status: number;
  readonly headers: Headers;
  readonly seen: ServerSentEvent<T>[] = [];
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  readonly #cut: AbortController;
  #rest = '';

  constructor(response: Response, cut: AbortController) {
    if (!response.body) throw new Error('a stream without a body');
    this.status = response.status;
    this.headers = response.headers;
    this.#reader = response.body.getReader() as ReadableStreamDefaultReader<Uint8Array>;
    this.#cut = cut;
  }

  /** Reads until an event fits; everything read is in `seen`. False: the stream ended first. */
  async until(fits: (event: ServerSentEvent<T>) => boolean): Promise<boolean> {
    let from = 0;
    for (;;) {
      if (this.seen.slice(from).some(fits)) return true;
      from = this.seen.length;
      const { done, value } = await this.#reader.read();
      if (done) return false;
      this.#take(this.#decoder.decode(value, { stream: true }));
    }
  }

  /** The stream as plain text up to its end. */
  async text(): Promise<string> {
    let all = '';
    for (;;) {
      const { done, value } = await this.#reader.read();
      if (done) return all;
      all += this.#decoder.decode(value, { stream: true });
    }
  }

  close(): void {
    this.#cut.abort();
  }

  #take(chunk: string): void {
    const blocks = (this.#rest + chunk).replaceAll('\r\n', '\n').split('\n\n');
    this.#rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const field = (name: string) =>
        block
          .split('\n')
          .filter((line) => line.startsWith(`${name}:`))
          .map((line) => line.slice(name.length + 1).replace(/^ /, ''))
          .join('\n');
      const data = field('data');
      if (data !== '') this.seen.push({ id: field('id'), type: field('event'), data: JSON.parse(data) as T });
    }
  }
}

export async function openStream<T>(
  api: Api,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<EventStream<T>> {
  const cut = new AbortController();
  const response = await fetch(`${api.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api.key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    signal: cut.signal,
  });
  return new EventStream<T>(response, cut);
}

/** How an open request ended: with a reply, or with a broken connection. */
export interface RequestEnd {
  readonly status: number;
  readonly text: string;
  readonly cut: boolean;
}

/** A wait or a stream that stays open until the server ends it or `abort` is called. */
export interface OpenRequest {
  readonly ended: Promise<RequestEnd>;
  /** Resolves with the status when the headers have arrived. */
  readonly opened: Promise<number>;
  /** What has arrived so far. */
  text(): string;
  abort(): void;
}

export function openRequest(
  api: Pick<Api, 'url' | 'key'>,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): OpenRequest {
  const controller = new AbortController();
  let text = '';
  let status = 0;
  const response = fetch(`${api.url}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      ...(headers.cookie === undefined && { authorization: `Bearer ${api.key}` }),
      'content-type': 'application/json',
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: controller.signal,
  });
  const ended = (async (): Promise<RequestEnd> => {
    try {
      const answer = await response;
      status = answer.status;
      const decoder = new TextDecoder();
      for await (const chunk of answer.body ?? []) text += decoder.decode(chunk, { stream: true });
      return { status, text, cut: false };
    } catch {
      return { status, text, cut: true };
    }
  })();
  const opened = response.then(
    (answer) => answer.status,
    () => 0,
  );
  return { ended, opened, text: () => text, abort: () => controller.abort() };
}
