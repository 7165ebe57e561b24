import type { IncomingMessage, ServerResponse } from 'node:http';

export interface Fault {
  readonly method?: string;
  /** Of the request, with its query. */
  readonly path: RegExp;
  /** How many requests it happens to; 1 unless told. */
  readonly times?: number;
  /** The request takes effect before the fault. */
  readonly isAfter?: boolean;
  /** A reply instead of the right one; no reply at all; or a connection that ends in the middle of one. */
  readonly reply:
    | {
        readonly status: number;
        readonly headers?: Readonly<Record<string, string>>;
        readonly body?: string | Buffer;
      }
    | 'silence'
    | 'cut';
}

/** What a code host does wrong, in the order in which the faults were added. */
export class Faults {
  /** How many requests a fault happened to. */
  happened = 0;
  #left: { readonly fault: Fault; times: number }[] = [];

  add(fault: Fault): void {
    this.#left.push({ fault, times: fault.times ?? 1 });
  }

  clear(): void {
    this.#left = [];
  }

  /** The fault that happens to a request, if any. */
  take({ method = 'GET', url = '' }: IncomingMessage): Fault | undefined {
    const found = this.#left.find(
      ({ fault, times }) => times > 0 && (fault.method ?? method) === method && fault.path.test(url),
    );
    if (!found) return undefined;
    found.times -= 1;
    this.happened += 1;
    return found.fault;
  }
}

export function answerWithFault({ reply }: Fault, response: ServerResponse): void {
  if (reply === 'silence') return;
  if (reply === 'cut') {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
    response.write('{"id":', () => response.destroy());
    return;
  }
  response.writeHead(reply.status, { 'content-type': 'application/json', ...reply.headers });
  response.end(reply.body ?? '{}');
}
