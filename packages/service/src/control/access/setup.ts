import { type ProviderAccount, repositoryCheck, type SetupStep } from '@muster/sdk/contract';
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

/** What is left to set up in a fresh installation. */
export class Setup {
  readonly #options: SetupOptions;

  constructor(options: SetupOptions) {
    this.#options = options;
  }

  readonly setup: Operation<'setup'> = async (caller, { dismissed }) => {
    const { database, tenants } = this.#options;
    if (dismissed !== undefined && !isAdmin(caller))
      return denied('only an admin may dismiss what is left to set up');
    if (dismissed !== undefined) await dismissSetup(database, caller.tenant.id, dismissed);
    const [[row], first] = await Promise.all([
      readSetup(database, caller.tenant.id, repositoryCheck),
      tenants.first(),
    ]);
    if (!row) throw new Error('the tenant was not read');
    const shows = (tenant: number) => isAdmin(caller) && mayOperate(caller, tenant, first);
    return { steps: stepsOf(row, shows), dismissed: row.is_dismissed };
  };
}

const stepsOf = (row: SetupRow, shows: (tenant: number) => boolean): SetupStep[] => [
  providerStep(row, shows),
  step('repository', row.has_repository),
  step('agent', row.has_agent),
  step('sign-in', row.has_sign_in),
  step('notification', row.has_notification),
];

const step = (name: SetupStep['name'], isDone: boolean, text = ''): SetupStep => ({
  name,
  state: isDone ? 'DONE' : 'MISSING',
  text,
});

/** One account that works is enough. Which one, and why one does not, is for admins of its runner. */
function providerStep({ runners }: SetupRow, shows: (tenant: number) => boolean): SetupStep {
  const works = runners.some(({ accounts }) => accounts.length === 0 || accounts.some(isUsable));
  const shown = runners.flatMap(({ tenant, accounts }) => (shows(tenant) ? accounts : []));
  if (works || runners.length === 0) {
    const account = shown.find(isAccepted) ?? shown.find(isUsable);
    return step('provider', works, account && foundText(account));
  }
  const [account] = shown;
  return { name: 'provider', state: 'FAILING', text: account ? `${account.account}: ${account.error}` : '' };
}

const foundText = (account: ProviderAccount): string =>
  `${account.account}: ${isAccepted(account) ? 'accepted by the provider' : 'found, not used yet'}`;

const isAccepted = (account: ProviderAccount): boolean => account.accepted && isUsable(account);

const isUsable = ({ state }: ProviderAccount): boolean => state !== 'PAUSED';
