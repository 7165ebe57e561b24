import { startLogin } from '@muster/sdk';
import type { Caller } from '@muster/sdk/contract';
import type { Api } from '../support/api.ts';
import { createKey } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';

const nothing = async () => ({});

/** With a command line that waits for an approval. */
const waitingLogin = async (admin: Api) => {
  const { deviceCode, userCode } = await startLogin(admin.url, 'muster on laptop');
  return { DEVICE: deviceCode, CODE: userCode };
};

/** What the examples about logins, keys and the audit use. */
export const accessSetUps = {
  audit: nothing,
  listKeys: nothing,
  revokeKey: async (admin: Api) => {
    const { api } = await createKey(admin, { role: 'viewer' });
    return { KEY: expectOk(await api.get<Caller>('/v1/whoami')).keyId };
  },
  startLogin: nothing,
  pollLogin: waitingLogin,
  showLogin: waitingLogin,
  answerLogin: waitingLogin,
};
