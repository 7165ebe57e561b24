import type { ProviderAccount, SetupStep } from '@muster/sdk/contract';
import type pg from 'pg';
import { denied } from '../../domain/refusal.ts';
import { dismissSetup, readSetup, type SetupRow } from '../../store/statements/setup.ts';
import type { Operation } from '../operation.ts';
import { isAdmin, mayOperate } from './permit.ts';
import type { Tenants } from './tenants.ts';

export interface SetupOptions {
  readonly database: pg.Pool;
  readonly tenants: Tenants;
}

/** What an admin of a fresh installation has left to set up. */
export class Setup {
  readonly #options: SetupOptions;

  constructor(options: SetupOptions) {
    this.#options = options;
  }

  readonly setup: Operation<'setup'> = async (caller, { dismissed }) => {
    if (!isAdmin(caller)) return denied('only an admin may see what is left to set up');
    const { database, tenants } = this.#options;
    if (dismissed !== undefined) await dismissSetup(database, caller.tenant.id, dismissed);
    const [[row], first] = await Promise.all([readSetup(database, caller.tenant.id), tenants.first()]);
    if (!row) throw new Error('the tenant was not read');
    const shows = (tenant: number) => mayOperate(caller, tenant, first);
    return { steps: stepsOf(row, shows), dismissed: row.is_dismissed };
  };
}

const stepsOf = (row: SetupRow, shows: (tenant: number) => boolean): SetupStep[] => [
  providerStep(row, shows),
  step('repository', row.has_repository),
  step('sign-in', row.has_sign_in),
  step('notification', row.has_notification),
];

const step = (name: SetupStep['name'], isDone: boolean): SetupStep => ({
  name,
  state: isDone ? 'DONE' : 'MISSING',
  text: '',
});

/** One account that works is enough. Why one does not is for admins of its runner. */
function providerStep({ runners }: SetupRow, shows: (tenant: number) => boolean): SetupStep {
  const works = runners.some(({ accounts }) => accounts.length === 0 || accounts.some(isUsable));
  if (works || runners.length === 0) return step('provider', works);
  const [account] = runners.flatMap(({ tenant, accounts }) => (shows(tenant) ? accounts : []));
  return { name: 'provider', state: 'FAILING', text: account ? `${account.account}: ${account.error}` : '' };
}

const isUsable = ({ state }: ProviderAccount): boolean => state !== 'PAUSED';
