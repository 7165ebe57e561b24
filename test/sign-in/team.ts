import {
  type Caller,
  type SignInAttempt,
  signInCallbackPath,
  signInStartPath,
  type Tenant,
  tenantName,
} from '@muster/sdk/contract';
import { type Api, apiOf } from '../support/api.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import type { Server } from '../support/server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { BrowserLike } from './browser-like.ts';
import { clientSecret } from './identity-provider.ts';

/** A tenant with a provider that its people sign in with. */
export interface Team {
  readonly admin: Api;
  readonly tenant: Tenant;
  readonly startUrl: string;
  readonly callbackUrl: string;
  readonly write: (document: Record<string, unknown>, name?: string) => Promise<unknown>;
  readonly attempts: () => Promise<SignInAttempt[]>;
}

export const signInName = 'company';

export async function newTeam(
  server: Pick<Server, 'url' | 'key' | 'databaseUrl'>,
  document: Record<string, unknown>,
  publicUrl = server.url,
): Promise<Team> {
  const operator = await operatorOf(server);
  const { tenant, admin } = await newTenant(operator, 'chief', uniqueName('team'));
  await writeResource(admin, 'secret', 'client-secret', { value: clientSecret });
  const write = (fields: Record<string, unknown>, name = signInName) =>
    writeResource(admin, 'sign-in', name, fields);
  await write(document);
  const named = tenantName(tenant);
  return {
    ...{ admin: apiOf({ url: server.url, key: admin.key }, server.databaseUrl), tenant, write },
    startUrl: `${publicUrl}${signInStartPath(named, signInName)}`,
    callbackUrl: `${publicUrl}${signInCallbackPath(named, signInName)}`,
    attempts: async () => {
      const reply = await admin.post<{ entries: SignInAttempt[] }>('/v1/sign-in/list', { name: signInName });
      return expectOk(reply).entries;
    },
  };
}

/** Signs in, and returns who is signed in or why nobody is. */
interface Outcome {
  readonly browser: BrowserLike;
  readonly url: string;
  readonly caller?: Caller;
  readonly refusal?: string;
}

export async function signIn(
  { startUrl }: Pick<Team, 'startUrl'>,
  browser = new BrowserLike(),
): Promise<Outcome> {
  const { url } = await browser.visit(startUrl);
  return outcomeOf(browser, url);
}

export async function outcomeOf(browser: BrowserLike, url: string): Promise<Outcome> {
  const { origin, hash } = new URL(url);
  const refusal = new URLSearchParams(hash.slice(1)).get('refusal');
  if (refusal !== null) {
    const reply = await browser.post(`${origin}/v1/sign-in/providers`, { refusal });
    return { browser, url, refusal: (reply.body as { refusal: string }).refusal };
  }
  const caller = await callerOf(browser, origin);
  return { browser, url, ...(caller && { caller }) };
}

export async function callerOf(browser: BrowserLike, origin: string): Promise<Caller | null> {
  const response = await browser.fetch(`${origin}/v1/session`);
  const body = (await response.json()) as { caller: Caller };
  return response.status === 200 ? body.caller : null;
}
