import { existsSync } from 'node:fs';
import { openLog } from '../../lib/log.ts';
import type { RowCounts } from '../../store/archive/archive-format.ts';
import { exportStore } from '../../store/archive/export-store.ts';
import { countsText, pipeArchive, rowsIn, writeArchive } from '../archive-file.ts';
import { type Config, readConfig } from '../config.ts';
import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
import { Progress } from '../progress.ts';
import { openStore } from '../store.ts';

interface Flags {
  readonly file?: string;
  readonly force?: boolean;
}

/** Reads beside a running service; whoever can read its data needs no key. */
export async function run({ flags, output, env, signal }: Invocation<Flags>): Promise<void> {
  const { file = '-', force = false } = flags;
  if (file === '-' && process.stdout.isTTY === true) {
    throw new CommandError('an archive is nothing to look at: give -f FILE, or pipe it', exitCodes.usage);
  }
  if (file !== '-' && !force && existsSync(file)) {
    throw new CommandError(`${file} is there already; --force replaces it`, exitCodes.conflict);
  }
  const config = readConfig(env);
  refuseNowhere(config);
  const progress = new Progress();
  let rows: Readonly<RowCounts> = {};
  const store = await openStore(config, openLog('warn'), { shares: true });
  try {
    const lines = exportStore(store.connection, (counts) => {
      rows = counts;
      progress.show(() => `${rowsIn(counts)} rows`);
    });
    if (file === '-') await pipeArchive(lines, signal);
    else await writeArchive({ file, replaces: force }, lines, signal);
  } catch (error) {
    if (signal.aborted) throw new CommandError('nothing was exported', exitCodes.interrupted);
    throw error;
  } finally {
    progress.clear();
    await store.close();
  }
  if (file === '-') output.note(`exported ${countsText(rows)}`);
  else output.answer({ file, rows }, () => output.line(`exported ${countsText(rows)}, to ${file}`));
}

/** Opening would make an empty store, and its archive would look like one of everything. */
function refuseNowhere({ databaseUrl, dataFolder }: Config): void {
  if (databaseUrl || existsSync(`${dataFolder}/postgres`)) return;
  throw new CommandError(
    `there is no store in ${dataFolder}; set MUSTER_DATA or DATABASE_URL as for muster serve`,
    exitCodes.notFound,
  );
}
