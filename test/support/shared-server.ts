import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
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

/** The model names that the operator of these servers added. */
const modelsFile = fileURLToPath(new URL('models.json', import.meta.url));

export interface SharedOptions extends Pick<ServerOptions, 'runner' | 'env'> {
  /** Makes it a second node on the database of the shared server with these options. */
  readonly sharesDatabaseWith?: SharedOptions;
}

/** Uses the server that all files with the same options share, or says that a file does not use it any more. */
async function send(method: 'POST' | 'DELETE', options: SharedOptions): Promise<string> {
  const { runner = true, env = {}, ...more } = options;
  const response = await sendRequest(process.env[addressVariable] ?? '', {
    method,
    headers: {},
    body: JSON.stringify({ runner, env, ...more }),
  });
  const answer = await text(response);
  if (response.statusCode !== 200) throw new Error(answer);
  return answer;
}

const use = async (options: SharedOptions): Promise<Running> =>
  JSON.parse(await send('POST', options)) as Running;
const release = (options: SharedOptions): Promise<string> => send('DELETE', options);

/**
 * A new tenant with its admin, on a server that all files with the same options share. Starting a server, and running
 * code that is not compiled yet, costs more than the tests of most files.
 */
export async function sharedServer(options: SharedOptions = {}): Promise<SharedServer> {
  const { url, databaseUrl, operatorKey } = await use(options);
  const operator = apiOf({ url, key: operatorKey }, databaseUrl);
  const { tenant, admin } = await newTenant(operator, 'admin');
  return {
    url,
    databaseUrl,
    key: admin.key,
    tenant,
    operator,
    close: async () => {
      if (options.runner !== false) await killAll(admin);
      await release(options);
    },
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
  const options = { runner: false, env, sharesDatabaseWith: shortLease };
  const second = await use(options);
  afterAll(async () => void (await release(options)));
  return { ...first, secondUrl: second.url.replace('0.0.0.0', '127.0.0.1') };
}

/** Agents that keep running would occupy the runner during the next files. */
async function killAll(admin: Api): Promise<void> {
  const { body } = await admin.post<{ entries: { agentId: unknown }[] }>('/v1/agents', { account: '*' });
  for (const { agentId } of body.entries) await admin.post('/v1/agent/kill', { agentId });
}

/** A server with the number of files that use it. */
interface Shared {
  readonly starting: Promise<{ readonly server: Server; readonly running: Running }>;
  users: number;
}

/**
 * Starts a server when a worker asks for its options first. One with options that few files have ends when no file uses
 * it: an idle server costs as much in a minute as its start. Returns a function that ends all of them.
 */
export async function startSharedServers(): Promise<() => Promise<void>> {
  const shared = new Map<string, Shared>();
  const start: (text: string) => Shared['starting'] = async (text) => {
    const { sharesDatabaseWith, ...options } = JSON.parse(text) as SharedOptions;
    const first = sharesDatabaseWith && (await shared.get(JSON.stringify(sharesDatabaseWith))?.starting);
    if (sharesDatabaseWith && !first) throw new Error('the server with the database is not used');
    const env = { MUSTER_MODELS: modelsFile, ...options.env };
    const server = await startServer({
      ...options,
      env,
      ...(first && { databaseUrl: first.server.databaseUrl }),
    });
    const { url, databaseUrl } = server;
    const operatorKey = first?.running.operatorKey ?? (await operatorOf(server)).key;
    return { server, running: { url, databaseUrl, operatorKey } };
  };
  const used = async (options: string): Promise<Running> => {
    const one = shared.get(options) ?? { starting: start(options), users: 0 };
    shared.set(options, one);
    one.users += 1;
    return (await one.starting).running;
  };
  const close = async ({ starting }: Shared): Promise<void> => (await starting).server.close();
  const released = async (options: string): Promise<void> => {
    const one = shared.get(options);
    if (!one) return;
    one.users -= 1;
    const { env = {} } = JSON.parse(options) as SharedOptions;
    if (one.users > 0 || Object.keys(env).length === 0) return;
    shared.delete(options);
    await close(one);
  };
  const listener = createServer(async (request, response) => {
    try {
      const options = await text(request);
      response.end(JSON.stringify((await (request.method === 'POST' ? used : released)(options)) ?? null));
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  });
  // A worker may send its next request on the same connection minutes later.
  listener.keepAliveTimeout = 0;
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  process.env[addressVariable] = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
  return async () => {
    listener.close();
    listener.closeAllConnections();
    // The newest first: a second node uses the database of the first.
    for (const one of [...shared.values()].reverse()) await close(one);
  };
}
