import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { lookInto } from '../crash/store.ts';
import { emptyDatabase } from '../support/database.ts';
import { program } from '../support/server.ts';

export interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The command line as a person has it, with nothing but this environment. */
export function muster(args: readonly string[], env: NodeJS.ProcessEnv): Promise<Said> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [program, ...args], { env }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

/** Places that go away with the test. */
export class Places {
  readonly folder = mkdtempSync(join(tmpdir(), 'muster-archive-'));
  readonly #drops: (() => Promise<void>)[] = [];
  #made = 0;

  /** A path at which there is nothing yet. */
  path(name: string): string {
    this.#made += 1;
    return join(this.folder, `${this.#made}-${name}`);
  }

  async database(): Promise<string> {
    const { url, drop } = await emptyDatabase();
    this.#drops.push(drop);
    return url;
  }

  /** What a command needs to find the store at this URL. */
  env(databaseUrl: string): NodeJS.ProcessEnv {
    return { PATH: process.env.PATH, DATABASE_URL: databaseUrl, MUSTER_DATA: this.path('data') };
  }

  async clear(): Promise<void> {
    for (const drop of this.#drops) await drop();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

export const linesOf = (file: string): string[] =>
  gunzipSync(readFileSync(file)).toString().trimEnd().split('\n');

export function pack(file: string, lines: readonly string[]): string {
  writeFileSync(file, gzipSync(lines.map((line) => `${line}\n`).join('')));
  return file;
}

/** Every row of every table that there is, past all of our code; long ones shortened, with a digest of the whole. */
export const dump = (url: string): Promise<string[]> =>
  lookInto(url, async (store) => {
    const tables = await store.rows<{ name: string }>(
      "SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'",
    );
    const lines: string[] = [];
    for (const { name } of tables.filter((table) => table.name !== 'migrations')) {
      const rows = await store.rows<{ row: string }>(
        `SELECT left(whole, 2000) || ' ' || md5(whole) AS row
         FROM (SELECT t::text AS whole FROM ${name} t OFFSET 0) AS texts`,
      );
      lines.push(...rows.map(({ row }) => `${name} ${row}`));
    }
    return lines.sort();
  });
