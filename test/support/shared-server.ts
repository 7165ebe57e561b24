import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Tenant } from '@muster/sdk/contract';
import { afterAll } from 'vitest';
import { type Api, apiOf, sendRequest } from './api.ts';
import { type Server, type ServerOptions, startServer } from './server.ts';
import { newTenant, operatorOf } from './tenants.ts';

/** A server as the tests of one file see it, with their own tenant. */
export interface SharedServer extends Pick<Server, 'url' | 'key' | 'databaseUrl' | 'close'> {
  readonly tenant: Tenant;
  readonly operator: Api;
}

/** What a worker needs to know of a running server. */
type Running = Pick<Server, 'url' | 'databaseUrl'> & { readonly operatorKey: string };

/** The address that starts the shared servers, for the workers. */
const addressVariable = 'MUSTER_TEST_SHARED_SERVERS';

export interface SharedOptions extends Pick<ServerOptions, 'runner' | 'env'> {
  /** Makes it a second node on the database of the shared server with these options. */
  readonly sharesDatabaseWith?: SharedOptions;
}

/** The server that all files with the same options share. */
async function runningServer({ runner = true, env = {}, ...more }: SharedOptions): Promise<Running> {
  const response = await sendRequest(process.env[addressVariable] ?? '', {
    method: 'POST',
    headers: {},
    body: JSON.stringify({ runner, env, ...more }),
  });
  const answer = await text(response);
  if (response.statusCode !== 200) throw new Error(answer);
  return JSON.parse(answer) as Running;
}

/**
 * A new tenant with its admin, on a server that all files with the same options share. Starting a server, and running
 * code that is not compiled yet, costs more than the tests of most files.
 */
export async function sharedServer(options: SharedOptions = {}): Promise<SharedServer> {
  const { url, databaseUrl, operatorKey } = await runningServer(options);
  const operator = apiOf({ url, key: operatorKey }, databaseUrl);
  const { tenant, admin } = await newTenant(operator, 'admin');
  return {
    url,
    databaseUrl,
    key: admin.key,
    tenant,
    operator,
    close: () => (options.runner === false ? Promise.resolve() : killAll(admin)),
  };
}

/** The shared server for the tests of a file, with its admin as `api`. Call it at the top of the file. */
export async function useSharedServer(
  options?: SharedOptions,
): Promise<SharedServer & { readonly api: Api }> {
  const server = await sharedServer(options);
  afterAll(server.close);
  return { ...server, api: apiOf(server, server.databaseUrl) };
}

export const shortLease: SharedOptions = { runner: false, env: { MUSTER_LEASE_SECONDS: '5' } };
export const rateLimited: SharedOptions = { runner: false, env: { MUSTER_RATE_LIMIT: '5' } };
export const publicHost = 'muster.example.com';

/**
 * The same with a second node on its database, which has two workers and a public URL, and is reachable from outside.
 * They are not the server that most files share, because each node is told about every change of the other.
 */
export async function useTwoNodes(): Promise<
  Awaited<ReturnType<typeof useSharedServer>> & { readonly secondUrl: string }
> {
  const first = await useSharedServer(shortLease);
  const env = {
    ...shortLease.env,
    MUSTER_HOST: '0.0.0.0',
    MUSTER_PUBLIC_URL: `https://${publicHost}`,
    MUSTER_WORKERS: '2',
  };
  const second = await runningServer({ runner: false, env, sharesDatabaseWith: shortLease });
  return { ...first, secondUrl: second.url.replace('0.0.0.0', '127.0.0.1') };
}

/** Agents that keep running would occupy the runner during the next files. */
async function killAll(admin: Api): Promise<void> {
  const { body } = await admin.post<{ entries: { agentId: unknown }[] }>('/v1/agents', { account: '*' });
  for (const { agentId } of body.entries) await admin.post('/v1/agent/kill', { agentId });
}

/** Starts a server when a worker asks for its options first. Returns a function that ends all of them. */
export async function startSharedServers(): Promise<() => Promise<void>> {
  const starts = new Map<string, Promise<Running>>();
  const servers: Server[] = [];
  const start = async (text: string): Promise<Running> => {
    const { sharesDatabaseWith, ...options } = JSON.parse(text) as SharedOptions;
    const first = sharesDatabaseWith && (await started(JSON.stringify(sharesDatabaseWith)));
    const server = await startServer({ ...options, ...(first && { databaseUrl: first.databaseUrl }) });
    servers.unshift(server);
    const { url, databaseUrl } = server;
    return { url, databaseUrl, operatorKey: first?.operatorKey ?? (await operatorOf(server)).key };
  };
  const started = (options: string): Promise<Running> => {
    const starting = starts.get(options) ?? start(options);
    starts.set(options, starting);
    return starting;
  };
  const listener = createServer(async (request, response) => {
    try {
      response.end(JSON.stringify(await started(await text(request))));
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  process.env[addressVariable] = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
  return async () => {
    listener.close();
    listener.closeAllConnections();
    for (const server of servers) await server.close();
  };
}
