import { describe, expect, test } from 'vitest';
import type { Answer } from '../support/api.ts';
import { decode, encode, writeResource } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { useSharedServer } from '../support/shared-server.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

type Page = { entries: { name: string; payload: string; generation: string }[]; nextPageToken: string };

const write = (name: string, payload: string, more: object = {}): Promise<Answer<{ payload: string }>> =>
  api.post(`/v1/catalog/persona/${name}`, { payload, ...more });

test.each(['*,model', 'model,*', 'a.*', '*.a'])(
  'the mask %s is refused: * must be alone',
  async (updateMask) => {
    await writeResource(api, 'persona', 'masked', { model: 'opus' });
    expectError(
      await write('masked', encode({ model: 'haiku' }), { updateMask }),
      'INVALID_ARGUMENT',
      'updateMask',
    );
    expectOk(await write('masked', encode({ model: 'haiku' }), { updateMask: ' * ' }));
  },
);

test('the name of a document is that of the path, whatever payload and mask say', async () => {
  for (const name of ['other', 7, null, { deep: true }])
    expect(await writeResource(api, 'persona', 'named', { name })).toMatchObject({ name: 'named' });
  const { body } = await write('named', encode({ name: 'other' }), { updateMask: 'name' });
  expect(decode(body.payload)).toMatchObject({ name: 'named' });
});

test('base64 may contain white space', async () => {
  const packed = encode({ instructions: 'Be terse, and then be terse again.' });
  const spaced = ` ${packed.match(/.{1,7}/g)?.join('\r\n\t ')}\n`;
  expect(decode(expectOk(await write('spaced', spaced)).payload)).toMatchObject({
    instructions: 'Be terse, and then be terse again.',
  });
});

describe('numbers', () => {
  const sent = (literal: string) =>
    write('numbers', Buffer.from(`{"deep": [{"n": ${literal}}]}`).toString('base64'));

  test.each([
    '9007199254740992',
    '-9007199254740992',
    '9007199254740993',
    '1e400',
    '-1e400',
    '1e20',
    '1'.repeat(500),
  ])('%s is refused', async (literal) => {
    expectError(await sent(literal), 'INVALID_ARGUMENT', 'payload');
  });

  test.each(['9007199254740991', '-9007199254740991', '1e300', '0.1', '"9007199254740993"'])(
    '%s is returned as it was sent',
    async (literal) => {
      expect(decode(expectOk(await sent(literal)).payload)).toMatchObject({
        deep: [{ n: JSON.parse(literal) }],
      });
    },
  );
});

test('a delete reads its justification from the body too', async () => {
  const operator = server.operator;
  await writeResource(api, 'persona', 'doomed', {});
  const path = '/v1/catalog/persona/doomed';
  const tenant = `?org=${server.tenant.org}&provider=PROVIDER_CODEHOST_APP`;
  const headers = { authorization: `Bearer ${operator.key}`, 'content-type': 'application/json' };
  expectError(
    await sendRaw(api.url, { method: 'DELETE', path: path + tenant, headers }),
    'INVALID_ARGUMENT',
    'justification',
  );
  const body = JSON.stringify({ justification: 'not used any more' });
  expect((await sendRaw(api.url, { method: 'DELETE', path: path + tenant, headers, body })).status).toBe(200);
  const { entries } = expectOk(await api.get<{ entries: { justification: string }[] }>(`${path}/history`));
  expect(entries[0]?.justification).toBe('not used any more');
});

test('an unknown tenant is NOT_FOUND for an operator on every catalog route', async () => {
  const operator = server.operator;
  const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: 'nobody-here' };
  const query = `?provider=${tenant.provider}&org=${tenant.org}`;
  for (const path of ['persona', 'persona/default', 'persona/default/history'])
    expectError(await operator.get(`/v1/catalog/${path}${query}`), 'NOT_FOUND');
  expectError(await operator.del(`/v1/catalog/persona/x${query}&justification=x`), 'NOT_FOUND');
  expectError(
    await operator.post('/v1/catalog/persona/x', { ref: { tenant }, justification: 'x' }),
    'NOT_FOUND',
  );
  expectError(await operator.post('/v1/agents', { tenant }), 'NOT_FOUND');
  expectError(await operator.post('/v1/agent/status', { agentId: { tenant, agent: ['a'] } }), 'NOT_FOUND');
});

test('a page of a list or of a history ends before it exceeds 4 MiB, and the next page continues', async () => {
  const large = 'x'.repeat(500_000);
  const names = Array.from({ length: 10 }, (_, i) => `large-${i}`);
  for (const name of names) await writeResource(api, 'environment', name, { large });
  for (let i = 0; i < 9; i += 1) await writeResource(api, 'environment', 'large-0', { large, i });
  const pagesOf = async (path: string): Promise<Page[]> => {
    const pages: Page[] = [];
    do {
      const token = pages.at(-1)?.nextPageToken ?? '';
      const answer = await api.get<Page>(`${path}?pageToken=${encodeURIComponent(token)}`);
      pages.push(expectOk(answer));
    } while (pages.at(-1)?.nextPageToken);
    return pages;
  };
  for (const [path, entries] of [
    ['/v1/catalog/environment', 11],
    ['/v1/catalog/environment/large-0/history', 10],
  ] as const) {
    const pages = await pagesOf(path);
    expect(pages.length).toBeGreaterThan(1);
    expect(pages.flatMap((page) => page.entries)).toHaveLength(entries);
    for (const page of pages) expect(JSON.stringify(page).length).toBeLessThan(6 * 1024 * 1024);
  }
  const [first, second] = await pagesOf('/v1/catalog/environment');
  const shown = [...(first?.entries ?? []), ...(second?.entries ?? [])].map(({ name }) => name);
  expect(shown).toEqual(['default', ...names]);
});
