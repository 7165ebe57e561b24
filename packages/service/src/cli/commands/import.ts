import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { openLog } from '../../lib/log.ts';
import { importStore } from '../../store/archive/import-store.ts';
import { countsText, readArchive, refuseUnreadable, rowsIn } from '../archive-file.ts';
import { type Config, readConfig } from '../config.ts';
import { keyFile, openDataFolder, secretFile } from '../data-folder.ts';
import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
import { Progress } from '../progress.ts';
import { openStore } from '../store.ts';

interface Flags {
  readonly file: string;
}

/** Works alone: the embedded server of a running service is not shared. */
export async function run({ flags, output, env, signal }: Invocation<Flags>): Promise<void> {
  const { file } = flags;
  await refuseUnreadable(file);
  const config = readConfig(env);
  const log = openLog('warn');
  openDataFolder(config.dataFolder, log);
  const progress = new Progress();
  const store = await openStore(config, log);
  try {
    const loading = importStore(store.connection, readArchive(file, signal), (counts) =>
      progress.show(() => `${rowsIn(counts)} rows`),
    );
    const { header, rows } = await Promise.race([loading, interrupted(signal)]);
    progress.clear();
    output.answer({ exportedAt: header.createdAt, rows }, () => {
      output.line(`imported ${countsText(rows)}, of ${header.createdAt}`);
    });
    output.note(nextStep(config));
  } finally {
    progress.clear();
    await store.close();
  }
}

/** The statement under way may wait for somebody's lock: it is left behind, and undone with its connection. */
async function interrupted(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, 'abort');
  throw new CommandError(
    'interrupted: import it again (a store that got everything refuses it)',
    exitCodes.interrupted,
  );
}

/** What no archive holds. */
function nextStep({ secret, dataFolder }: Config): string {
  const secretPath = secretFile(dataFolder);
  const given = secret ? 'MUSTER_SECRET' : existsSync(secretPath) ? secretPath : null;
  const check = given
    ? `make sure that ${given} is the secret of the old service`
    : `set MUSTER_SECRET to that of the old service, or copy its file "secret" to ${secretPath}`;
  return [
    `Next: ${check}, then start muster serve.`,
    'The signing keys of integrations and the tokens of runs are made from it. Keys of people go on working as they are;',
    `for the command line here copy the old admin.key to ${keyFile(dataFolder)}.`,
  ].join('\n');
}
