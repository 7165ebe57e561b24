import { startLogin } from '@muster/sdk';
import type { ListedKey, StartedLogin } from '@muster/sdk/contract';
import { expect } from 'vitest';
import { createKey } from '../support/catalog.ts';
import { execute } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import type { LostReplies } from './lost-reply-cases.ts';

/** Requests about keys, and about command lines that sign in. */
export const lostLoginReplies: LostReplies = {
  revokeKey: [
    async ({ api }) => {
      const { key, api: revoked } = await createKey(api, { role: 'viewer' });
      const keyId = /^mst_([^.]+)/.exec(key)?.[1];
      return {
        sent: { path: '/v1/keys/revoke', body: { keyId } },
        check: async (retried) => {
          expectError(retried, 'NOT_FOUND');
          expectError(await revoked.get('/v1/whoami'), 'UNAUTHENTICATED');
        },
      };
    },
  ],
  startLogin: [
    async () => ({
      sent: { path: '/v1/device/start', body: { client: 'muster' } },
      // Another one; the lost one expires.
      check: async (retried) => expect((expectOk(retried) as StartedLogin).deviceCode).not.toBe(''),
    }),
  ],
  pollLogin: [
    async ({ api }, databaseUrl) => {
      const { deviceCode, userCode } = await startLogin(api.url, 'muster');
      expectOk(await api.post('/v1/device/answer', { userCode, approve: true }));
      const keys = async () =>
        expectOk(await api.post<{ entries: ListedKey[] }>('/v1/keys')).entries.filter(
          ({ kind }) => kind === 'login',
        );
      const before = (await keys()).length;
      // Its pause is over.
      await execute(databaseUrl, "UPDATE device_logins SET polled_at = now() - interval '1 minute'");
      return {
        sent: { path: '/v1/device/poll', body: { deviceCode } },
        // The lost key is listed, and nobody has it.
        check: async (retried) => {
          expect(expectOk(retried)).toMatchObject({ state: 'EXPIRED', apiKey: '' });
          expect((await keys()).length).toBe(before + 1);
        },
      };
    },
  ],
  answerLogin: [
    async ({ api }) => {
      const { userCode } = await startLogin(api.url, 'muster');
      return {
        sent: { path: '/v1/device/answer', body: { userCode, approve: true } },
        check: async (retried) => {
          expectError(retried, 'NOT_FOUND');
        },
      };
    },
  ],
};
