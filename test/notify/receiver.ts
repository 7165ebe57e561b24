import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface ReceivedPost {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface ReceiverAnswer {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

/** An endpoint of a person: it keeps what was posted to it, and answers as it is told to. */
export class Receiver {
  readonly posts: ReceivedPost[] = [];
  /** By path; `hang` never answers. The first of the list that is left, and then 200. */
  readonly answers = new Map<string, (ReceiverAnswer | 'hang')[]>();
  readonly url: string;
  readonly close: () => Promise<void>;

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.close = close;
  }

  static async start(): Promise<Receiver> {
    const server = createServer(async (request, reply) => {
      const { url: path = '', headers } = request;
      const body = await text(request);
      receiver.posts.push({ path, headers, body });
      const answer = receiver.answers.get(path)?.shift() ?? { status: 200, body: 'ok' };
      if (answer === 'hang') return;
      reply.writeHead(answer.status, answer.headers).end(answer.body ?? '');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const receiver = new Receiver(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return receiver;
  }

  to = (path: string): ReceivedPost[] => this.posts.filter((one) => one.path === path);
  bodies = <T = Record<string, unknown>>(path: string): T[] =>
    this.to(path).map(({ body }) => JSON.parse(body) as T);
}
