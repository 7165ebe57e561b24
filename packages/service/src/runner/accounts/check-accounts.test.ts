import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, expect, test } from 'vitest';
import { silentLog } from '../../lib/log.ts';
import { accountsOf } from './accounts.ts';
import { checkAccounts } from './check-accounts.ts';

/** A provider that answers each key with the status in it, and redirects one. */
const seen: string[] = [];
const provider = createServer(({ url, headers }, response) => {
  const key = headers['x-api-key'] ?? headers.authorization;
  seen.push(`${url} ${key}`);
  const status = Number(/\d{3}/.exec(String(key))?.[0]);
  response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end('x'.repeat(100_000));
});
await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
afterAll(() => {
  provider.closeAllConnections();
  provider.close();
});

const statesWith = async (key: string) => {
  const accounts = accountsOf({
    ...{ ANTHROPIC_API_KEY: key, ANTHROPIC_BASE_URL: url },
    ...{ OPENAI_API_KEY: key, OPENAI_BASE_URL: `${url}/v1` },
  });
  await checkAccounts(accounts, silentLog);
  return Object.values(accounts)
    .flatMap((own) => own.states())
    .map(({ state, accepted, error }) => ({ state, accepted, error }));
};

test('a key that the provider accepts is known to work', async () => {
  const works = { state: 'FREE', accepted: true, error: '' };
  expect(await statesWith('key-200')).toEqual([works, works]);
  expect(seen).toEqual(['/v1/models key-200', '/v1/models Bearer key-200']);
});

test('a key that it refuses pauses the account, and the error has not the key', async () => {
  const error = 'refused the credentials (401): change';
  expect(await statesWith('key-401')).toEqual([
    { state: 'PAUSED', accepted: false, error: `anthropic ${error} ANTHROPIC_API_KEY` },
    { state: 'PAUSED', accepted: false, error: `openai ${error} OPENAI_API_KEY` },
  ]);
});

test.each([403, 404, 500, 302])('%d says nothing about the key, and leads nowhere else', async (status) => {
  const unknown = { state: 'FREE', accepted: false, error: '' };
  expect(await statesWith(`key-${status}`)).toEqual([unknown, unknown]);
  expect(seen.filter((line) => line.startsWith('/elsewhere'))).toEqual([]);
});
