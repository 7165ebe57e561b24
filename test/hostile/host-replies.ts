import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { uniqueName, writeResource } from '../support/catalog.ts';
import type { Hostile } from './inputs.ts';

const record = (names: number): string =>
  JSON.stringify(Object.fromEntries(Array.from({ length: names }, (_, i) => [`${'x'.repeat(20)}${i}`, i])));

/** Pages of a list without a last one, and what the test of an integration says about them. */
const pages: readonly (readonly [name: string, page: string, problem: string])[] = [
  ['a million values in 2 MiB', `[${'0,'.repeat(1_000_000)}0]`, 'more values than'],
  ['five million empty lists', `[${'[],'.repeat(5_000_000)}[]]`, 'more values than'],
  ['16 million levels', '['.repeat(16_000_000), 'more depth than'],
  ['60,000 levels in a small reply', '['.repeat(60_000), 'more depth than'],
  ['17 million characters', JSON.stringify(['x'.repeat(17_000_000)]), 'more than 16777216 bytes'],
  ['90,000 objects', `[${'{"a":{}},'.repeat(45_000)}{}]`, 'Give the credential access'],
  ['a record of 190,000 names', `[${record(190_000)}]`, 'more values than'],
  ['a record of 99,000 names', `[${record(99_000)}]`, 'more names than'],
  ['one entry of 90,000 values', `[{"a":[${'0,'.repeat(90_000)}0]}]`, 'more than 500000 values in all'],
];

/** A code host whose pages are hostile. */
export async function startHostileHost() {
  let page = '[]';
  const server = createServer((request, response) => {
    const replies = { '/api/v1/version': '{"version":"1.22.0"}', '/api/v1/user': '{"id":1,"login":"robot"}' };
    response.writeHead(200, { link: '</api/v1/user/repos?page=2>; rel="next"' });
    response.end(replies[request.url as keyof typeof replies] ?? page);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const inputs: readonly Hostile[] = pages.map(([name, next, problem]) => ({
    name: `pages with ${name}`,
    run: async ({ api }) => {
      page = next;
      const integration = uniqueName('host');
      const token = { fromSecret: integration };
      await writeResource(api, 'secret', integration, { value: 'token-of-the-host' });
      await writeResource(api, 'integration', integration, { type: 'forgejo', url: `http://${host}`, token });
      const test = () => api.post('/v1/integration/test', { name: integration });
      const answers = await Promise.all([test(), test()]);
      for (const { body } of answers)
        if (!JSON.stringify(body).includes(problem))
          throw new Error(`no "${problem}": ${JSON.stringify(body)}`);
      return answers;
    },
  }));
  return { host, inputs, close: () => server.close() };
}
