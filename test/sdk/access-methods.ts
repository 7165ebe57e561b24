import { MusterClient, NotFoundError, pollLogin, startLogin } from '@muster/sdk';
import { expect, test } from 'vitest';
import { execute } from '../support/database.ts';
import { collect } from './code-host-methods.ts';

interface RecordedServer {
  readonly url: string;
  readonly databaseUrl: string;
  readonly fetch: typeof fetch;
}

/** The methods for logins, keys and the audit, with the client that records which routes it calls. */
export const testAccessMethods = (client: MusterClient, server: RecordedServer) =>
  test('logins of command lines, keys and the audit', async () => {
    const { deviceCode, userCode } = await startLogin(server.url, 'a test', server);
    expect(await client.showLogin(userCode)).toMatchObject({ userCode, client: 'a test' });
    await client.answerLogin(userCode, true);
    await expect(client.answerLogin(userCode, true)).rejects.toBeInstanceOf(NotFoundError);
    // Its pause is over.
    await execute(server.databaseUrl, "UPDATE device_logins SET polled_at = now() - interval '1 minute'");
    const { apiKey } = await pollLogin(server.url, deviceCode, server);
    const { keyId } = await new MusterClient({ ...server, apiKey }).whoami();
    expect((await collect(client.keys())).map((key) => key.keyId)).toContain(keyId);
    await client.revokeKey(keyId, { justification: 'tested' });
    await expect(client.revokeKey(keyId)).rejects.toBeInstanceOf(NotFoundError);
    const records = await collect(client.auditAll({ name: keyId, from: new Date(0), pageSize: 1 }));
    expect(records.map(({ action }) => action)).toEqual(['REVOKE', 'GRANT']);
    await client.catalog.write('persona', 'audited', { instructions: 'x' });
    const { entries } = await client.audit({ kind: 'persona', name: 'audited', documents: true });
    expect(entries).toMatchObject([{ document: { instructions: 'x' }, previousDocument: null }]);
  });
