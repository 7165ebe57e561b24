import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { expect, test } from 'vitest';

const entry = fileURLToPath(new URL('../../packages/sdk/src/client/index.ts', import.meta.url));

/** The client bundled for a browser. An import of a Node module fails the build. */
const bundled = async (): Promise<string> => {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    logLevel: 'silent',
  });
  return outputFiles[0]?.text ?? '';
};

test('the client is at most 40 KB minified, without the schemas', async () => {
  const text = await bundled();
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(40 * 1024);
  expect(text).not.toContain('additionalProperties');
});

test('the client uses no globals of Node', async () => {
  const text = await bundled();
  for (const name of ['Buffer', 'process', 'require', 'setImmediate', 'node:'])
    expect(text).not.toMatch(new RegExp(`(?<![\\w$.'"-])${name}(?![\\w$])`));
});

test('the built package has the client and the contract as two entries', () => {
  const script = `
    const client = await import('@muster/sdk');
    const contract = await import('@muster/sdk/contract');
    console.log(JSON.stringify([typeof client.MusterClient, 'routes' in client, 'routes' in contract]));`;
  const cwd = fileURLToPath(new URL('../../', import.meta.url));
  const output = execFileSync(process.execPath, ['--input-type=module', '--eval', script], { cwd });
  expect(JSON.parse(output.toString())).toEqual(['function', false, true]);
});
