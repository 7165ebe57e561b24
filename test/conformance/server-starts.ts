import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { until } from '../support/async.ts';
import { type Server, type ServerOptions, startServer } from '../support/server.ts';

const servers: Server[] = [];
const folders: string[] = [];

/** Starts a server that `cleanUp` closes. */
export async function start(options: ServerOptions = {}): Promise<Server> {
  const server = await startServer({ runner: false, ...options });
  servers.push(server);
  return server;
}

/** A folder that `cleanUp` removes. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'muster-start-'));
  folders.push(folder);
  return folder;
}

export async function cleanUp(): Promise<void> {
  for (const server of servers.splice(0)) await server.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** Starts a service that must refuse to start, and returns its output. */
export async function refusedStart(options: ServerOptions): Promise<string> {
  const outcome = await startServer({ runner: false, ...options }).then(
    async (server) => {
      await server.close();
      return undefined;
    },
    (error: Error) => error.message,
  );
  if (outcome === undefined) throw new Error('the service started');
  expect(outcome).toMatch(/ended with [1-9]/);
  return outcome;
}

export const outputOf = (server: Server): string => server.output.join('');

/** The sign-in link in the start-up text, if it has one. */
export async function linkOf(server: Server): Promise<string | undefined> {
  const text = await until(
    'the whole text',
    async () => outputOf(server),
    (seen) => /^ {2}backends /m.test(seen),
  );
  return /ready at .*\n {2}open {6}(\S+) {2}\(signs you in once; later use \S+ \S+ open\)\n/.exec(text)?.[1];
}

/** The files of a folder, without those of PostgreSQL itself. */
export function filesOf(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isFile()) return [path];
    if (!entry.isDirectory()) return [];
    return readdirSync(path).includes('PG_VERSION') ? [] : filesOf(path);
  });
}

export const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8);
