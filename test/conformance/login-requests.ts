import type { AuditEntry, Caller, ListedKey, PolledLogin, StartedLogin } from '@muster/sdk/contract';
import type pg from 'pg';
import { expect } from 'vitest';
import type { Api } from '../support/api.ts';
import { createKey, uniqueName } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { type RawAnswer, sendRaw } from '../support/raw-requests.ts';

/** What people and command lines send when one of these signs in; `admin` sends to one node, `secondUrl` is another. */
export function loginRequests(admin: Api, secondUrl: string, database: pg.Client) {
  /** As the command line sends it: without a key, at any node. */
  const send = (path: string, body: unknown, { url = admin.url, headers = {} } = {}): Promise<RawAnswer> =>
    sendRaw(url, {
      path,
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  const start = async (client = 'muster on box'): Promise<StartedLogin> =>
    expectOk(await send('/v1/device/start', { client })) as StartedLogin;
  /** Its pause is over. */
  async function poll({ deviceCode }: StartedLogin, url = secondUrl): Promise<PolledLogin> {
    await database.query("UPDATE device_logins SET polled_at = now() - interval '1 minute'");
    return expectOk(await send('/v1/device/poll', { deviceCode }, { url })) as PolledLogin;
  }

  const newPerson = async (document: Record<string, unknown> = {}) => {
    const account = uniqueName('mia');
    return { account, ...(await createKey(admin, { role: 'member', account, ...document })) };
  };
  const approve = (person: Api, { userCode }: StartedLogin) =>
    person.post('/v1/device/answer', { userCode, approve: true });

  /** A command line that has signed in as this person. */
  async function loggedIn(person: Api, client?: string): Promise<Api> {
    const login = await start(client);
    expectOk(await approve(person, login));
    const { state, apiKey } = await poll(login);
    expect(state).toBe('GRANTED');
    return admin.as(apiKey);
  }

  const whoami = async (api: Api): Promise<Caller> => expectOk(await api.get<Caller>('/v1/whoami'));
  const keysOf = async (api: Api, body = {}): Promise<ListedKey[]> =>
    expectOk(await api.post<{ entries: ListedKey[] }>('/v1/keys', body)).entries;
  const auditOf = async (body: object): Promise<AuditEntry[]> =>
    expectOk(await admin.post<{ entries: AuditEntry[] }>('/v1/audit', body)).entries;

  return { send, start, poll, newPerson, approve, loggedIn, whoami, keysOf, auditOf };
}
