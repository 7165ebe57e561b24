import { type MusterClient, NotFoundError, signInProviders } from '@muster/sdk';
import { expect, test } from 'vitest';
import { uniqueName } from '../support/catalog.ts';

/** The methods for providers that people sign in with, with the client that records which routes it calls. */
export const testSignInMethods = (client: MusterClient, url: string, fetch: typeof globalThis.fetch) =>
  test('signIns tests a provider and lists its sign-ins, and the sign-in page lists the providers', async () => {
    const name = uniqueName('sign-in');
    await client.catalog.write('sign-in', name, { issuer: 'http://127.0.0.1:9', clientId: 'muster' });
    const { checks } = await client.signIns.test(name);
    expect(checks).toMatchObject([{ name: 'configuration of the provider', ok: false }]);
    expect(await client.signIns.list(name, { outcomes: ['REFUSED'] })).toEqual([]);
    await expect(client.signIns.test('nothing')).rejects.toBeInstanceOf(NotFoundError);
    const own: typeof fetch = (address, init) =>
      fetch(address, { ...init, headers: { ...init?.headers, origin: new URL(url).origin } });
    expect(await signInProviders(url, { refusal: 'none' }, { fetch: own })).toMatchObject({ refusal: '' });
  });
