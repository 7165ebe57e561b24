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

/**
 * A new tenant with its admin, on a server that all files with the same options share. Starting a server, and running
 * code that is not compiled yet, costs more than the tests of most files.
 */
export async function sharedServer(
  options: Pick<ServerOptions, 'runner' | 'env'> = {},
): Promise<SharedServer> {
  const { runner = true, env = {} } = options;
  const response = await sendRequest(process.env[addressVariable] ?? '', {
    method: 'POST',
    headers: {},
    body: JSON.stringify({ runner, env }),
  });
  const answer = await text(response);
  if (response.statusCode !== 200) throw new Error(answer);
  const { url, databaseUrl, operatorKey } = JSON.parse(answer) as Running;
  const operator = apiOf({ url, key: operatorKey });
  const { tenant, admin } = await newTenant(operator, 'admin');
  return {
    url,
    databaseUrl,
    key: admin.key,
    tenant,
    operator,
    close: () => (runner ? killAll(admin) : Promise.resolve()),
  };
}

/** The shared server for the tests of a file, with its admin as `api`. Call it at the top of the file. */
export async function useSharedServer(
  options?: Parameters<typeof sharedServer>[0],
): Promise<SharedServer & { readonly api: Api }> {
  const server = await sharedServer(options);
  afterAll(server.close);
  return { ...server, api: apiOf(server) };
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
  const start = async (options: string): Promise<Running> => {
    const server = await startServer(JSON.parse(options) as ServerOptions);
    servers.push(server);
    const { url, databaseUrl } = server;
    return { url, databaseUrl, operatorKey: (await operatorOf(server)).key };
  };
  const listener = createServer(async (request, response) => {
    const options = await text(request);
    const starting = starts.get(options) ?? start(options);
    starts.set(options, starting);
    try {
      response.end(JSON.stringify(await starting));
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
