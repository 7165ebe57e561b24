import { makeKey } from '../../control/bootstrap.ts';
import { Control } from '../../control/control.ts';
import { openLog } from '../../lib/log.ts';
import { readConfig } from '../config.ts';
import { openDataFolder, serviceSecret } from '../data-folder.ts';
import { openStore } from '../store.ts';

/** Whoever can read the server's data may make an operator: there is nothing more that it could be asked for. */
export async function run(account: string, env: NodeJS.ProcessEnv): Promise<void> {
  const config = readConfig(env);
  const log = openLog('warn');
  openDataFolder(config.dataFolder, log);
  const store = await openStore(config, log, { shares: true });
  const control = new Control({
    database: store.database,
    connection: store.connection,
    log,
    secret: serviceSecret(config.dataFolder, config.secret),
    publicUrl: () => config.publicUrl ?? '',
    defaultModel: config.defaultModel,
    leaseMs: config.leaseMs,
  });
  const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: config.bootstrap.org } as const;
  const name = `operator-${account}-${Date.now().toString(36)}`;
  const key = await makeKey(control, tenant, account, 'operator', name);
  process.stdout.write(`operator ${account}: ${key}  (shown once; token "${name}")\n`);
  await store.close();
}
