import { once } from 'node:events';
import { Agent, type IncomingMessage } from 'node:http';
import { afterEach, expect, test } from 'vitest';
import { answerOf, apiOf, sendRequest } from '../support/api.ts';
import { until } from '../support/async.ts';
import type { Server } from '../support/server.ts';
import { cleanUp, start } from './server-starts.ts';

afterEach(cleanUp);

/** One connection that is kept open, as a proxy has many. */
class Connection {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #server: Server;

  constructor(server: Server) {
    this.#server = server;
  }

  async send(): Promise<{ status: number; isLast: boolean }> {
    const { url, key } = this.#server;
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const request = { method: 'POST', headers, body: '{}', agent: this.#agent };
    const response: IncomingMessage = await sendRequest(`${url}/v1/agents`, request);
    const { status } = await answerOf(response);
    return { status, isLast: response.headers.connection === 'close' };
  }

  close(): void {
    this.#agent.destroy();
  }
}

const isRefused = (url: string): Promise<boolean> =>
  fetch(`${url}/healthz`).then(
    () => false,
    () => true,
  );

test.each([1, 2])(
  'with %i workers: a service that ends is unready first, serves every request meanwhile, and closes each connection after a reply',
  async (workers) => {
    const server = await start({ env: { MUSTER_DRAIN_SECONDS: '3', MUSTER_WORKERS: String(workers) } });
    const connections = Array.from({ length: 6 }, () => new Connection(server));
    expect(await Promise.all(connections.map((one) => one.send()))).toEqual(
      connections.map(() => ({ status: 200, isLast: false })),
    );
    const ended = once(server.process, 'exit');
    server.process.kill('SIGTERM');
    await until(
      'unready',
      () => apiOf(server).get('/readyz'),
      ({ status }) => status === 503,
    );
    // Nobody is turned away yet.
    expect(await Promise.all(connections.map((one) => one.send()))).toEqual(
      connections.map(() => ({ status: 200, isLast: false })),
    );
    const statuses = new Set<number>();
    const untilClosed = async (connection: Connection): Promise<void> => {
      for (let isLast = false; !isLast; ) {
        const reply = await connection.send();
        statuses.add(reply.status);
        isLast = reply.isLast;
      }
      connection.close();
    };
    await Promise.all(connections.map(untilClosed));
    expect([...statuses]).toEqual([200]);
    await until('new connections refused', () => isRefused(server.url), Boolean);
    expect(await ended).toEqual([0, null]);
  },
);
