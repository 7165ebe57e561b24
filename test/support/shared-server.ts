import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Tenant } from '@muster/sdk/contract';
import type { Api } from './api.ts';
import { type Server, type ServerOptions, startServer } from './server.ts';
import { newTenant, operatorOf } from './tenants.ts';

/** What a file sees of a server that it shares. */
export interface SharedServer extends Pick<Server, 'url' | 'key' | 'databaseUrl' | 'close'> {
  readonly tenant: Tenant;
  readonly operator: Api;
}

interface Started {
  readonly server: Server;
  readonly operator: Api;
}

/** The servers of this worker, with and without a runner: modules outlive the files that import them. */
const started = new Map<boolean, Promise<Started>>();

/**
 * A new tenant with its admin, on a server that the files of one worker share. To start a server, and to run code that
 * is not compiled yet, costs more than most files do on it.
 */
export async function sharedServer({
  runner = true,
}: Pick<ServerOptions, 'runner'> = {}): Promise<SharedServer> {
  const starting = started.get(runner) ?? start(runner);
  started.set(runner, starting);
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

async function start(runner: boolean): Promise<Started> {
  const server = await startServer({ runner });
  writeFileSync(join(folder(), String(server.process.pid)), server.env.MUSTER_DATA ?? '');
  return { server, operator: await operatorOf(server) };
}

/** Agents that go on would keep the runner from those of the files behind. */
async function killAll(admin: Api): Promise<void> {
  const { body } = await admin.post<{ entries: { agentId: unknown }[] }>('/v1/agents', { account: '*' });
  for (const { agentId } of body.entries) await admin.post('/v1/agent/kill', { agentId });
}

/** Where each shared server is noted by its process id, with its data folder. */
const folderVariable = 'MUSTER_TEST_SHARED_SERVERS';
const folder = (): string => process.env[folderVariable] ?? '';

/** A worker ends without a word, so its servers are ended by the process that started the workers. */
export function keepSharedServers(): () => void {
  process.env[folderVariable] = mkdtempSync(join(tmpdir(), 'muster-shared-'));
  return () => {
    for (const pid of readdirSync(folder())) {
      const data = readFileSync(join(folder(), pid), 'utf8');
      try {
        process.kill(Number(pid), 'SIGKILL');
      } catch {
        // It has ended by itself.
      }
      rmSync(data, { recursive: true, force: true });
    }
    rmSync(folder(), { recursive: true, force: true });
  };
}
