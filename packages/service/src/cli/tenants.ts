import { type Tenant, tenantName, tenantNamed } from '@muster/sdk/contract';
import type pg from 'pg';
import { countHeldRuns, findTenant, firstTenant, setTenantClosed } from '../store/statements/tenants.ts';
import type { Invocation } from './command.ts';
import { CommandError, exitCodes, usageError } from './errors.ts';
import { openExistingStore } from './store.ts';

export function readTenant(text: string): Tenant {
  const tenant = tenantNamed(text);
  if (tenant) return tenant;
  throw usageError(`"${text}": expected a tenant as <provider>/<org>, for example codehost_app/acme`);
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
