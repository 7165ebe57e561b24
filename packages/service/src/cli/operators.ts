import { makeKey } from '../control/access/bootstrap.ts';
import { openLog } from '../lib/log.ts';
import type { Flags, Invocation } from './command.ts';
import { readConfig } from './config.ts';
import { openDataFolder } from './data-folder.ts';
import { readAccount } from './input.ts';
import { openControlForKeys } from './node.ts';
import { openStore } from './store.ts';

/** Needs no key: who can read the server's data could read every secret anyway. */
export async function createOperator({ flags, output, env }: Invocation<Flags<'account'>>): Promise<void> {
  const account = readAccount(flags.account ?? 'operator');
  const config = readConfig(env);
  const log = openLog('warn');
  openDataFolder(config.dataFolder, log);
  const store = await openStore(config, log, { shares: true });
  const control = openControlForKeys(config, store, log);
  const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: config.bootstrap.org } as const;
  const name = `operator-${account}-${Date.now().toString(36)}`;
  const key = await makeKey(control, tenant, account, 'operator', name);
  output.answer({ account, token: name, key }, () =>
    output.line(`operator ${account}: ${key}  (shown once; token "${name}")`),
  );
  await store.close();
}
