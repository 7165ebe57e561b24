import type { MusterClient } from '@muster/sdk';
import { expect, test } from 'vitest';
import { uniqueName } from '../support/catalog.ts';
import { collect } from './code-host-methods.ts';

/** The methods for the people of a tenant, with the client that records which routes it calls. */
export const testMemberMethods = (client: MusterClient): void => {
  test('members lists the accounts, updateMember changes one, and setup says what is missing', async () => {
    const account = uniqueName('mia');
    await client.catalog.write('token', uniqueName('key'), { role: 'member', account });
    const { ownerProvider } = await client.whoami();
    const found = await collect(client.members({ text: account }));
    expect(found).toMatchObject([{ account, ownerProvider, role: 'member', disabled: false }]);
    expect((await client.listMembers({ text: account, pageSize: 1 })).entries).toEqual(found);
    expect(await client.updateMember({ account, ownerProvider, disabled: true })).toMatchObject({
      disabled: true,
    });
    expect((await client.setup()).steps).toHaveLength(5);
  });
};
