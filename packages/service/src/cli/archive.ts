import { once } from 'node:events';
import { constants, createReadStream, existsSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { openLog } from '../lib/log.ts';
import { ArchiveError, cutOff, type RowCounts } from '../store/archive/archive-format.ts';
import { exportStore } from '../store/archive/export-store.ts';
import { importStore } from '../store/archive/import-store.ts';
import type { Flags, Invocation } from './command.ts';
import { type Config, readConfig } from './config.ts';
import { keyFile } from './connection.ts';
import { openDataFolder, secretFile } from './data-folder.ts';
import { CommandError, exitCodes, usageError } from './errors.ts';
import { checkTarget, writeNewFile } from './output.ts';
import { openStore } from './store.ts';

export type ExportFlags = Flags<'file', 'force'>;

/** Needs no API key: it reads the database itself, also while the service runs. */
export async function exportArchive({ flags, output, env, signal }: Invocation<ExportFlags>): Promise<void> {
  const { file = '-', force = false } = flags;
  checkTarget(file, force, output);
  const config = readConfig(env);
  // Opening the store would create an empty one, and its archive would look complete.
  if (!config.databaseUrl && !existsSync(`${config.dataFolder}/postgres`))
    throw new CommandError(
      `no database in ${config.dataFolder}; set MUSTER_DATA or DATABASE_URL as for muster serve`,
      exitCodes.notFound,
    );
  let rows: Readonly<RowCounts> = {};
  const store = await openStore(config, openLog('warn'), { shares: true });
  try {
    const lines = exportStore(store.connection, (counts) => {
      rows = counts;
      output.progress.show(() => `${total(counts)} rows`);
    });
    if (file === '-') await pipeline(lines, createGzip(), process.stdout, { signal, end: false });
    else await writeNewFile(file, force, (stream) => pipeline(lines, createGzip(), stream, { signal }));
  } catch (error) {
    if (signal.aborted) throw new CommandError('interrupted; nothing was exported', exitCodes.interrupted);
    throw error;
  } finally {
    output.progress.clear();
    await store.close();
  }
  if (file === '-') output.note(`exported ${countsText(rows)}`);
  else output.answer({ file, rows }, () => output.line(`exported ${countsText(rows)} to ${file}`));
}

export interface ImportFlags {
  readonly file: string;
}

/** Does not share the embedded server of a service that is running. */
export async function importArchive({ flags, output, env, signal }: Invocation<ImportFlags>): Promise<void> {
  const { file } = flags;
  if (file !== '-')
    await access(file, constants.R_OK).catch((error: Error) => {
      throw usageError(`can't read ${file}: ${error.message}`);
    });
  const config = readConfig(env);
  const log = openLog('warn');
  openDataFolder(config.dataFolder, log);
  const store = await openStore(config, log);
  try {
    const loading = importStore(store.connection, readArchive(file, signal), (counts) =>
      output.progress.show(() => `${total(counts)} rows`),
    );
    const { header, rows } = await Promise.race([loading, interrupted(signal)]);
    output.progress.clear();
    output.answer({ exportedAt: header.createdAt, rows }, () => {
      output.line(`imported ${countsText(rows)}, exported at ${header.createdAt}`);
    });
    output.note(nextSteps(config));
  } finally {
    output.progress.clear();
    await store.close();
  }
}

/** The current statement may wait for a lock, so it is not waited for; closing the connection rolls it back. */
async function interrupted(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, 'abort');
  throw new CommandError(
    'interrupted; run the import again (it is refused if the first one was complete)',
    exitCodes.interrupted,
  );
}

/** What an archive does not hold. */
function nextSteps({ secret, dataFolder }: Config): string {
  const file = secretFile(dataFolder);
  const configured = secret ? 'MUSTER_SECRET' : existsSync(file) ? file : null;
  const check = configured
    ? `make sure that ${configured} is the secret of the old service`
    : `set MUSTER_SECRET to the secret of the old service, or copy its file "secret" to ${file}`;
  return [
    `Next: ${check}, then start muster serve.`,
    'The secret signs the keys of integrations and the tokens of runs. API keys keep working without it.',
    `To use the command line here, copy the old admin.key to ${keyFile(dataFolder)}.`,
  ].join('\n');
}

/** Unpacks the file as it is read. */
export async function* readArchive(file: string, signal: AbortSignal): AsyncGenerator<Buffer> {
  const source = file === '-' ? process.stdin : createReadStream(file);
  const unpacked = createGunzip({ chunkSize: 256 * 1024 });
  const done = pipeline(source, unpacked, { signal });
  done.catch(() => {});
  try {
    yield* unpacked as AsyncIterable<Buffer>;
    await done;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'Z_BUF_ERROR') throw cutOff();
    if (code?.startsWith('Z_'))
      throw new ArchiveError(`${file} is not an archive of muster export, or it is damaged.`);
    throw error;
  }
}

const total = (counts: Readonly<RowCounts>): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0);

const nouns = {
  agents: ['agent', 'agents'],
  timeline: ['timeline entry', 'timeline entries'],
  resources: ['resource', 'resources'],
  keys: ['key', 'keys'],
} as const;

/** `12 agents, 310 timeline entries, 1 key, 345 rows in total`. */
function countsText(counts: Readonly<RowCounts>): string {
  const named = Object.entries(nouns).map(([table, [singular, plural]]) =>
    counts[table] === 1 ? `1 ${singular}` : `${counts[table] ?? 0} ${plural}`,
  );
  return `${named.join(', ')}, ${total(counts)} rows in total`;
}
