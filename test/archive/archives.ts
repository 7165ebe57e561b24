import { execFile } from 'node:child_process';
import { createWriteStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip, gunzipSync, gzipSync } from 'node:zlib';
import type { Tenant } from '@muster/sdk/contract';
import { afterAll } from 'vitest';
import { readArchive } from '../../packages/service/src/cli/archive.ts';
import { exportStore } from '../../packages/service/src/store/archive/export-store.ts';
import { importStore, importTenant } from '../../packages/service/src/store/archive/import-store.ts';
import type { DatabaseConfig } from '../../packages/service/src/store/connection.ts';
import { runHere } from '../cli/cli.ts';
import { Node, type NodeOptions } from '../crash/node.ts';
import { lookInto } from '../crash/store.ts';
import { type Database, emptyDatabase, freshDatabase } from '../support/database.ts';
import { program } from '../support/server.ts';

/** The same for services that are compared: the addresses of webhooks contain it. */
export const publicAddress = { MUSTER_PUBLIC_URL: 'https://muster.example.com' };

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command with only this environment, in this process: starting one costs more than most commands. */
export async function muster(args: readonly string[], env: NodeJS.ProcessEnv): Promise<CommandResult> {
  const { code, out, err } = await runHere(args, { env });
  return { code: code ?? -1, stdout: out, stderr: err };
}

/** The same in a process of its own. */
export function musterProcess(args: readonly string[], env: NodeJS.ProcessEnv): Promise<CommandResult> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [program, ...args], { env }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

/** What `muster export` does with a database, without a process. */
export async function exportDatabase(
  database: string | DatabaseConfig,
  file: string,
  tenant: Tenant | null = null,
): Promise<string> {
  const connection = typeof database === 'string' ? { connectionString: database } : database;
  await pipeline(
    exportStore(connection, () => {}, tenant),
    createGzip(),
    createWriteStream(file),
  );
  return file;
}

/** What `muster import` does with a database, without a process. */
export async function importDatabase(file: string, connectionString: string): Promise<void> {
  await importStore({ connectionString }, readArchive(file, new AbortController().signal));
}

/** What `muster import --tenant` does with a database, without a process. */
export async function importTenantInto(
  connectionString: string,
  tenant: Tenant,
  file: string,
): Promise<void> {
  await importTenant({ connectionString }, tenant, readArchive(file, new AbortController().signal));
}

/** Files, databases and nodes that are removed after the tests of a file. */
export class Places {
  readonly folder = mkdtempSync(join(tmpdir(), 'muster-archive-'));
  readonly #cleanUps: (() => Promise<void>)[] = [];
  #paths = 0;

  constructor() {
    afterAll(async () => {
      for (const cleanUp of this.#cleanUps.reverse()) await cleanUp();
      rmSync(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    });
  }

  /** A path that does not exist yet. */
  path(name: string): string {
    this.#paths += 1;
    return join(this.folder, `${this.#paths}-${name}`);
  }

  /** Without a schema. */
  database(): Promise<string> {
    return this.#made(emptyDatabase());
  }

  /** With the schema, and no rows. */
  migratedDatabase(): Promise<string> {
    return this.#made(freshDatabase());
  }

  async #made(making: Promise<Database>): Promise<string> {
    const { url, drop } = await making;
    this.#cleanUps.push(drop);
    return url;
  }

  /** A new database with the rows of an archive. */
  async importedDatabase(archive: string): Promise<string> {
    const url = await this.migratedDatabase();
    await importDatabase(archive, url);
    return url;
  }

  async node(options: NodeOptions): Promise<Node> {
    const node = await Node.start(options);
    this.closeAfterwards(node);
    return node;
  }

  closeAfterwards(node: Node): void {
    this.#cleanUps.push(() => node.close());
  }

  /** The environment of a command for the database at this URL. */
  env(databaseUrl: string): NodeJS.ProcessEnv {
    return { PATH: process.env.PATH, DATABASE_URL: databaseUrl, MUSTER_DATA: this.path('data') };
  }
}

export const linesOf = (file: string): string[] =>
  gunzipSync(readFileSync(file)).toString().trimEnd().split('\n');

export function pack(file: string, lines: readonly string[]): string {
  writeFileSync(file, gzipSync(lines.map((line) => `${line}\n`).join('')));
  return file;
}

/** Each start decides when the host is asked next. */
const hookColumns = '(t.tenant, t.integration, t.id, t.compared_at)';

/** Every row of every table, read by SQL; long rows are truncated, with a digest of the whole. */
export const dump = (url: string): Promise<string[]> =>
  lookInto(url, async (store) => {
    const tables = await store.rows<{ name: string }>(
      `SELECT relname AS name FROM pg_class
       WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
         AND relname NOT IN ('migrations', 'maintenance', 'watches', 'storage_use')`,
    );
    const lines: string[] = [];
    for (const { name } of tables) {
      const rows = await store.rows<{ row: string }>(
        `SELECT left(whole, 2000) || ' ' || md5(whole) AS row
         FROM (SELECT ${name === 'hooks' ? hookColumns : 't'}::text AS whole FROM ${name} t OFFSET 0) AS texts`,
      );
      lines.push(...rows.map(({ row }) => `${name} ${row}`));
    }
    return lines.sort();
  });
