import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test, vi } from 'vitest';
import { blocksOf, root, runTypeScript } from '../docs/code-blocks.ts';
import { useSharedServer } from '../support/shared-server.ts';

const blocks = blocksOf('packages/sdk/README.md');
/** The first block makes the client that the others use. */
const [client, ...examples] = blocks.filter(({ language }) => language === 'ts');

/** What they print, by the heading above each. */
const printed: Readonly<Record<string, string>> = {
  'An agent, from start to end': blocks.find(({ language }) => language === 'text')?.code ?? '',
  Streams: expect.stringMatching(/^\d+ one\n\d+ two\n$/),
  'A live list': 'gardener PHASE_COMPLETED\n',
  Errors: 'NOT_FOUND 5 404\nagentId.agent[0]\n',
  'The catalog': '10 11\n',
  '64-bit values': 'true\n-1 9 10\n',
};

const server = await useSharedServer();
const folder = mkdtempSync(join(tmpdir(), 'muster-readme-'));
symlinkSync(`${root}node_modules`, join(folder, 'node_modules'));
afterAll(() => rmSync(folder, { recursive: true }));

test('the expected output of every example is known', () => {
  expect(examples.map(({ heading }) => heading).sort()).toEqual(Object.keys(printed).sort());
});

test.each(examples)('$heading', async ({ heading, code }) => {
  const warn = vi.spyOn(console, 'warn');
  const env = { MUSTER_URL: server.url, MUSTER_API_KEY: server.key };
  expect(await runTypeScript(`${client?.code}\n${code}`, folder, env)).toEqual(printed[heading]);
  expect(warn).not.toHaveBeenCalled();
});
