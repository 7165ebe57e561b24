import { openLog } from '../lib/log.ts';
import { newestMigration } from '../store/migrate.ts';
import type { Invocation } from './command.ts';
import { readConfig } from './config.ts';
import { openDataFolder } from './data-folder.ts';
import { openStore } from './store.ts';

/** For an upgrade in which the nodes themselves do not migrate (MUSTER_MIGRATE=off). Needs no API key. */
export async function migrateStore({ output, env }: Invocation): Promise<void> {
  const config = readConfig(env);
  const log = openLog('warn');
  if (!config.databaseUrl) openDataFolder(config.dataFolder, log);
  const store = await openStore({ ...config, migrates: true }, log, { shares: true });
  await store.close();
  const { migrated } = store;
  const newest = await newestMigration();
  output.answer({ migrated, newest }, () => {
    for (const name of migrated) output.line(`applied ${name}`);
    output.line(
      migrated.length > 0
        ? `The schema is at migration ${newest}.`
        : `Nothing to do: the schema has migration ${newest} already.`,
    );
  });
}
