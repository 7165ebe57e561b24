import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ClientOptions, MusterClient } from '@muster/sdk';
import type { Claim } from '@muster/sdk/contract';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { Node } from '../crash/node.ts';
import { FaultProxy } from '../support/fault-proxy.ts';
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

/** A node behind a proxy that breaks connections, with a new tenant for each test of a file. */
export class ProxiedNode {
  node!: Node;
  proxy!: FaultProxy;
  tenant!: TestTenant;

  constructor() {
    beforeAll(async () => {
      this.node = await Node.start({ runner: false });
      this.proxy = await FaultProxy.listen({ port: Number(new URL(this.node.url).port) });
    });
    afterAll(async () => {
      await this.proxy?.close();
      await this.node?.close();
    });
    beforeEach(async () => {
      this.tenant = await newTestTenant(this.node.api);
    });
    afterEach(() => {
      // Connections that the proxy has silenced stay open at the service until they are cut.
      this.proxy.set('cut');
      this.proxy.set('through');
    });
  }

  /** A client behind the proxy, with enough retries for a busy machine. */
  client(options: Partial<ClientOptions> = {}): MusterClient {
    return new MusterClient({
      url: this.proxy.url,
      apiKey: this.node.key,
      retries: { tries: 1_000, withinMs: 120_000, longestDelayMs: 500 },
      ...options,
    });
  }

  readonly agent = (path = 'agent'): string => `${this.tenant.workspace}:${path}`;

  /** Spawns the agent and starts its first run. */
  async start(): Promise<Claim> {
    await this.tenant.spawn('agent');
    return this.tenant.start('agent');
  }
}
