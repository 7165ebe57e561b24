import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ClientOptions, MusterClient } from '@muster/sdk';
import type { Claim } from '@muster/sdk/contract';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { FaultProxy } from '../support/fault-proxy.ts';
import type { SharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

/** Starts a server on a free port of the loopback address. */
export async function listening(server: Server): Promise<{ url: string; close(): Promise<void> }> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      if (server.listening) await once(server, 'close');
    },
  };
}

type Target = Pick<Api, 'url' | 'key'> & { close(): Promise<void> };

/** A server behind a proxy that breaks connections, with a new tenant for each test of a file. */
export class ProxiedServer<T extends Target = SharedServer> {
  target!: T;
  proxy!: FaultProxy;
  tenant!: TestTenant;

  constructor(start: () => Promise<T>) {
    beforeAll(async () => {
      this.target = await start();
      this.proxy = await FaultProxy.listen({ port: Number(new URL(this.target.url).port) });
    });
    afterAll(async () => {
      await this.proxy?.close();
      await this.target?.close();
    });
    beforeEach(async () => {
      this.tenant = await newTestTenant(this.api);
    });
    afterEach(() => {
      // Connections that the proxy has silenced stay open at the service until they are cut.
      this.proxy.set('cut');
      this.proxy.set('through');
    });
  }

  /** Without the proxy. */
  get api(): Api {
    return apiOf(this.target);
  }

  /** A client behind the proxy, with enough retries for a busy machine. */
  client(options: Partial<ClientOptions> = {}): MusterClient {
    return new MusterClient({
      url: this.proxy.url,
      apiKey: this.target.key,
      retries: { tries: 1_000, withinMs: 120_000, longestDelayMs: 500 },
      ...options,
    });
  }

  /** Waits for one and for many agents, with one try, once the requests of both were sent. */
  async heldWaits(name: string, options: Partial<ClientOptions> = {}): Promise<Promise<unknown>[]> {
    let requests = 0;
    const client = this.client({
      retries: { tries: 1 },
      fetch: (input, init) => {
        requests += 1;
        return fetch(input, init);
      },
      ...options,
    });
    const waits = [client.wait(name), client.waitMany([name])];
    await until(
      'both waits held',
      async () => requests,
      (count) => count >= 2,
    );
    return waits;
  }

  readonly agent = (path = 'agent'): string => `${this.tenant.workspace}:${path}`;

  /** Spawns the agent and starts its first run. */
  async start(): Promise<Claim> {
    await this.tenant.spawn('agent');
    return this.tenant.start('agent');
  }
}
