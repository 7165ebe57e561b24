import { startLogin } from '@muster/sdk';
import type { Caller } from '@muster/sdk/contract';
import type { Api } from '../support/api.ts';
import { createKey, writeResource } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';

const nothing = async () => ({});

/** With a command line that waits for an approval. */
const waitingLogin = async (admin: Api) => {
  const { deviceCode, userCode } = await startLogin(admin.url, 'muster on laptop');
  return { DEVICE: deviceCode, CODE: userCode };
};

const withSignIn = async (admin: Api) => {
  await writeResource(admin, 'sign-in', 'company', { issuer: 'http://127.0.0.1:9', clientId: 'muster' });
  return {};
};

/** What the examples about sign-ins, members, logins, keys and the audit use. */
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
  signInProviders: nothing,
  listSignIns: withSignIn,
  testSignIn: withSignIn,
  setup: nothing,
  undrainRunners: async (admin: Api) => {
    const { key } = await createKey(admin, { role: 'runner' });
    expectOk(await new FakeRunner(admin.as(key), 'builder-1').poll({ capabilities: ['undrain'] }));
    expectOk(await admin.post('/v1/runners/drain', { pool: 'default' }));
    return {};
  },
  listMembers: nothing,
  updateMember: async (admin: Api) => {
    await createKey(admin, { role: 'member', account: 'mia' });
    return {};
  },
};
