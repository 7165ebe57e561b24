import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Tenant } from '@muster/sdk/contract';
import { afterAll } from 'vitest';
import { type Api, apiOf } from './api.ts';
import { type Server, type ServerOptions, startServer } from './server.ts';
import { newTenant, operatorOf } from './tenants.ts';

/** A server as the tests of one file see it, with their own tenant. */
export interface SharedServer extends Pick<Server, 'url' | 'key' | 'databaseUrl' | 'close'> {
  readonly tenant: Tenant;
  readonly operator: Api;
}

interface Started {
  readonly server: Server;
  readonly operator: Api;
}

/** The servers of this worker by their options: modules live longer than the files that import them. */
const started = new Map<string, Promise<Started>>();

/**
 * A new tenant with its admin, on a server that the files of one worker share. Starting a server, and running code that
 * is not compiled yet, costs more than the tests of most files.
 */
export async function sharedServer(
  options: Pick<ServerOptions, 'runner' | 'env'> = {},
): Promise<SharedServer> {
  const { runner = true, env = {} } = options;
  const key = JSON.stringify({ runner, env });
  const starting = started.get(key) ?? start({ runner, env });
  started.set(key, starting);
  const { server, operator } = await starting;
  const { tenant, admin } = await newTenant(operator, 'admin');
  return {
    url: server.url,
    databaseUrl: server.databaseUrl,
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

async function start(options: ServerOptions): Promise<Started> {
  const server = await startServer(options);
  writeFileSync(join(folder(), String(server.process.pid)), server.env.MUSTER_DATA ?? '');
  return { server, operator: await operatorOf(server) };
}

/** Agents that keep running would occupy the runner during the next files. */
async function killAll(admin: Api): Promise<void> {
  const { body } = await admin.post<{ entries: { agentId: unknown }[] }>('/v1/agents', { account: '*' });
  for (const { agentId } of body.entries) await admin.post('/v1/agent/kill', { agentId });
}

/** This folder has a file per shared server: its name is the process id, its content the data folder. */
const folderVariable = 'MUSTER_TEST_SHARED_SERVERS';
const folder = (): string => process.env[folderVariable] ?? '';

/** Workers end without a hook, so the process that started them ends their servers. */
export function keepSharedServers(): () => void {
  process.env[folderVariable] = mkdtempSync(join(tmpdir(), 'muster-shared-'));
  return () => {
    for (const pid of readdirSync(folder())) {
      const data = readFileSync(join(folder(), pid), 'utf8');
      try {
        process.kill(Number(pid), 'SIGKILL');
      } catch {
        // The server has already ended.
      }
      rmSync(data, { recursive: true, force: true });
    }
    rmSync(folder(), { recursive: true, force: true });
  };
}
