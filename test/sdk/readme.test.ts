import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { transform } from 'esbuild';
import { expect, test } from 'vitest';
import { useSharedServer } from '../support/shared-server.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../../', import.meta.url));
const page = readFileSync(`${root}packages/sdk/README.md`, 'utf8');

/** Each example by the heading above it. */
const examples = page
  .split(/^## /m)
  .slice(1)
  .flatMap((section) => {
    const heading = section.slice(0, section.indexOf('\n'));
    const codes = [...section.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code);
    return codes.map((code) => [heading, code] as const);
  });

/** What they print. */
const printed: Readonly<Record<string, string>> = {
  'An agent, from start to end': /```text\n(.*?)```/s.exec(page)?.[1] ?? '',
  Streams: expect.stringMatching(/^\d+ one\n\d+ two\n$/),
  'A live list': 'gardener PHASE_COMPLETED\n',
  Errors: 'NOT_FOUND 5 404\nagentId.agent[0]\n',
  'The catalog': '10 11\n',
  '64-bit values': 'true\n-1 9 10\n',
};

const server = await useSharedServer();

test('the expected output of every example is known', () => {
  expect(examples.map(([heading]) => heading).sort()).toEqual(Object.keys(printed).sort());
});

test.each(examples)('%s', async (heading, code) => {
  const { code: script } = await transform(code, { loader: 'ts' });
  const { stdout, stderr } = await run(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: root,
    env: { PATH: process.env.PATH, MUSTER_URL: server.url, MUSTER_API_KEY: server.key },
  });
  expect({ stdout, stderr }).toEqual({ stdout: printed[heading], stderr: '' });
});
