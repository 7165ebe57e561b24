import type { ModelProvider } from '@muster/sdk/contract';
import type { RunnerLog } from '../../lib/log.ts';
import { requestUpstream } from '../gateway/upstream.ts';
import { type AuthorizedCall, providerFacts } from './account.ts';
import type { Accounts } from './accounts.ts';
import type { NamedAccount, ProviderAccounts } from './provider-accounts.ts';

/** The list of models: a request that costs nothing. The others sign in with keys that expire, or have no such list. */
const listPaths: Readonly<Partial<Record<ModelProvider, string>>> = {
  anthropic: '/v1/models',
  openai: '/models',
};

const answerMs = 15_000;

/**
 * Asks each provider once whether it accepts the credentials, so that a wrong key shows before an agent fails with it. Only
 * 401 is about the key: a key may lack the permission for the list, and a proxy may not have one.
 */
export async function checkAccounts(accounts: Accounts, log: RunnerLog): Promise<void> {
  const all = Object.values(accounts).flatMap((own) => own.all.map((account) => ({ own, account })));
  for (const { own, account } of all) {
    const path = listPaths[account.provider];
    if (path === undefined) continue;
    // Where the provider can't be reached, the first run says so.
    await check(own, account, path, log).catch(() => {});
  }
}

async function check(
  own: ProviderAccounts,
  account: NamedAccount,
  path: string,
  log: RunnerLog,
): Promise<void> {
  const sentMs = Date.now();
  const headers = { accept: 'application/json', 'anthropic-version': '2023-06-01' };
  const call = { method: 'GET', path, query: '', headers, body: new Uint8Array() };
  const authorized = await account.authorize(call);
  const status = await statusOf(authorized);
  if (status === 200) own.accepted(account.id, sentMs);
  if (status !== 401) return;
  const error = `${providerFacts[account.provider].title} refused the credentials (401)`;
  log.warn({ account: account.id, reason: error }, 'account paused');
  own.pause(account.id, {
    untilMs: Number.POSITIVE_INFINITY,
    error: `${error}: change ${account.setting}`,
    isLimit: false,
  });
}

/** Nothing of the answer is read but its status. Redirects are not followed. */
const statusOf = ({ url, headers }: AuthorizedCall): Promise<number> =>
  new Promise((resolve, reject) => {
    const request = requestUpstream(url, 'GET', headers);
    const timer = setTimeout(() => request.destroy(new Error('no answer')), answerMs);
    request
      .on('close', () => clearTimeout(timer))
      .on('error', reject)
      .on('response', (response) => {
        resolve(response.statusCode ?? 0);
        response.destroy();
      })
      .end();
  });
