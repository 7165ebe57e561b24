import { once } from 'node:events';
import { constants, createReadStream, existsSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { clock, tenantName } from '@muster/sdk/contract';
import { openLog } from '../lib/log.ts';
import { ArchiveError, cutOff, type RowCounts } from '../store/archive/archive-format.ts';
import { exportStore } from '../store/archive/export-store.ts';
import { importStore, importTenant } from '../store/archive/import-store.ts';
import type { Flags, Invocation } from './command.ts';
import { type Config, readConfig } from './config.ts';
import { keyFile } from './connection.ts';
import { openDataFolder, secretFile } from './data-folder.ts';
import { CommandError, exitCodes, usageError } from './errors.ts';
import { readTenant } from './input.ts';
import { checkTarget, writeNewFile } from './output.ts';
import { type OpenStore, openExistingStore, openStore } from './store.ts';

export type ExportFlags = Flags<'file' | 'tenant', 'force'>;

/** Needs no API key: it reads the database itself, also while the service runs. */
export async function exportArchive({ flags, output, env, signal }: Invocation<ExportFlags>): Promise<void> {
  const { file = '-', force = false } = flags;
  const tenant = flags.tenant === undefined ? null : readTenant(flags.tenant);
  checkTarget(file, force, output);
  let rows: Readonly<RowCounts> = {};
  // A new store would be empty, and its archive would look complete.
  const store = await openExistingStore(env);
  try {
    const lines = exportStore(
      store.connection,
      (counts) => {
        rows = counts;
        output.progress.show(() => `${total(counts)} rows`);
      },
      tenant,
    );
    const write = (stream: NodeJS.WritableStream, end: boolean): Promise<void> =>
      Promise.race([pipeline(lines, createGzip(), stream, { signal, end }), interrupted(signal)]);
    if (file === '-') await write(process.stdout, false);
    else await writeNewFile(file, force, (stream) => write(stream, true));
  } catch (error) {
    if (signal.aborted) throw new CommandError('interrupted; nothing was exported', exitCodes.interrupted);
    throw error;
  } finally {
    output.progress.clear();
    await store.close();
  }
  if (file === '-') output.note(`exported ${countsText(rows)}`);
  else output.answer({ file, rows }, () => output.line(`exported ${countsText(rows)} to ${file}`));
  if (!tenant) return;
  const name = tenantName(tenant);
  output.note(
    `Next: muster import --tenant ${name} -f FILE, once, with the variables of the other installation.\n` +
      `Here the tenant stays closed. Open it (muster tenant open ${name}) only if you do not import the file.`,
  );
}

export interface ImportFlags {
  readonly file: string;
  readonly tenant?: string;
}

/** Of a whole database: does not share the embedded server of a service that is running. */
export async function importArchive({ flags, output, env, signal }: Invocation<ImportFlags>): Promise<void> {
  const { file } = flags;
  const tenant = flags.tenant === undefined ? null : readTenant(flags.tenant);
  if (file !== '-')
    await access(file, constants.R_OK).catch((error: Error) => {
      throw usageError(`can't read ${file}: ${error.message}`);
    });
  const config = readConfig(env);
  const store = tenant ? await openExistingStore(env) : await openNewStore(config);
  try {
    const bytes = readArchive(file, signal);
    const onProgress = (counts: Readonly<RowCounts>) => output.progress.show(() => `${total(counts)} rows`);
    const loading = tenant
      ? importTenant(store.connection, tenant, bytes, onProgress)
      : importStore(store.connection, bytes, onProgress);
    const { header, rows } = await Promise.race([loading, interrupted(signal)]);
    output.progress.clear();
    output.answer({ exportedAt: header.createdAt, rows }, () => {
      output.line(`imported ${countsText(rows)}, exported at ${clock(header.createdAt)}`);
    });
    output.note(tenant ? tenantSteps : nextSteps(config));
  } finally {
    output.progress.clear();
    await store.close();
  }
}

async function openNewStore(config: Config): Promise<OpenStore> {
  const log = openLog('warn');
  openDataFolder(config.dataFolder, log);
  return openStore(config, log);
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
    'The values of secrets, the keys of integrations and triggers, and the tokens of runs depend on it; API keys do not.',
    `To use the command line here, copy the old admin.key to ${keyFile(dataFolder)}.`,
  ].join('\n');
}

const tenantSteps = [
  'Next: give the tenant the address of this installation, for its users and in MUSTER_URL of its runners. Its keys work here.',
  'Values of secrets and the keys of integrations and triggers depend on the secret of an installation. If this one has another secret, set MUSTER_SECRET_PREVIOUS here to the secret of the other one; muster doctor says when nothing needs it any more.',
].join('\n');

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
