import { tenantName } from '@muster/sdk/contract';
import type pg from 'pg';
import { makeKey } from '../control/access/bootstrap.ts';
import { openLog } from '../lib/log.ts';
import {
  countHeldRuns,
  findTenant,
  firstTenant,
  listTenants,
  setTenantClosed,
} from '../store/statements/tenants.ts';
import type { Flags, Invocation } from './command.ts';
import { readConfig } from './config.ts';
import { CommandError, exitCodes } from './errors.ts';
import { readAccount, readNewTenant, readTenant } from './input.ts';
import { openControlForKeys } from './node.ts';
import type { Column } from './output.ts';
import { openExistingStore } from './store.ts';

interface TenantRow {
  readonly tenant: string;
  readonly closed: boolean;
}

const columns: readonly Column<TenantRow>[] = [
  { title: 'TENANT', of: ({ tenant }) => tenant },
  { title: 'STATUS', of: ({ closed }) => (closed ? 'closed' : 'open') },
];

/** Needs no API key. */
export async function listAllTenants({ output, env }: Invocation): Promise<void> {
  const store = await openExistingStore(env);
  const found = await listTenants(store.database).finally(store.close);
  const rows = found.map((row) => ({ tenant: tenantName(row), closed: row.closed_at !== null }));
  await output.table(rows, columns, 'no tenants');
}

/** Creates a tenant with the key of its first admin. Needs no API key. */
export async function createTenant(
  { flags, output, env }: Invocation<Flags<'account'>>,
  text: string,
): Promise<void> {
  const tenant = readNewTenant(text);
  const account = readAccount(flags.account ?? 'admin');
  const store = await openExistingStore(env);
  try {
    const [found] = await findTenant(store.database, tenant.provider, tenant.org);
    if (found) throw new CommandError(`the tenant ${text} exists already`, exitCodes.conflict);
    const control = openControlForKeys(readConfig(env), store, openLog('warn'));
    const key = await makeKey(control, tenant, account, 'admin', 'first-admin');
    await control.close();
    output.answer({ tenant: tenantName(tenant), account, token: 'first-admin', key }, () => {
      output.line(key);
      output.note(`the key of ${account}, admin of ${tenantName(tenant)}; shown once`);
    });
  } finally {
    await store.close();
  }
}

/** The first part of moving a tenant to another installation. Needs no API key. */
export async function closeTenant({ output, env }: Invocation, text: string): Promise<void> {
  const name = tenantName(readTenant(text));
  const runs = await inStore(env, text, async (database, id) => {
    // It has the operators, and its agents may use whatever the runners' machines offer.
    if ((await firstTenant(database))[0]?.id === id)
      throw new CommandError(
        `${name} is the first tenant of this installation and can't be closed; move the whole database instead`,
        exitCodes.conflict,
      );
    await setTenantClosed(database, id, true);
    return (await countHeldRuns(database, id))[0]?.held ?? 0;
  });
  output.answer({ tenant: name, closed: true, runs }, () => {
    output.line(
      `${name} is closed: it can be read, and what is running ends; nothing else changes or starts.`,
    );
    output.line(
      runs === 0
        ? `Next: muster export --tenant ${name} -f FILE`
        : `${runs === 1 ? '1 run has' : `${runs} runs have`} not ended; after that: muster export --tenant ${name} -f FILE`,
    );
  });
}

/** For a tenant that is not moved after all. */
export async function openTenant({ output, env }: Invocation, text: string): Promise<void> {
  const name = tenantName(readTenant(text));
  await inStore(env, text, (database, id) => setTenantClosed(database, id, false));
  output.answer({ tenant: name, closed: false }, () =>
    output.line(`${name} is open. Import no archive of it any more: its agents would run twice.`),
  );
}

async function inStore<T>(
  env: NodeJS.ProcessEnv,
  text: string,
  work: (database: pg.Pool, id: number) => Promise<T>,
): Promise<T> {
  const { provider, org } = readTenant(text);
  const store = await openExistingStore(env);
  try {
    const [found] = await findTenant(store.database, provider, org);
    if (!found)
      throw new CommandError(`the tenant ${text} does not exist in this database`, exitCodes.notFound);
    return await work(store.database, found.id);
  } finally {
    await store.close();
  }
}
