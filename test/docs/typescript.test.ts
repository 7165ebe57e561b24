import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { blocksOf } from './blocks.ts';
import { Reader } from './reader.ts';

const run = promisify(execFile);
const reader = new Reader();
afterAll(() => reader.close());

/** The strictest that a reader may have set. */
const options = [
  ...['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--skipLibCheck'],
  ...['--target', 'es2023', '--lib', 'es2023', '--module', 'nodenext', '--types', 'node'],
];

test('the TypeScript of the pages has the right types', async () => {
  const blocks = ['docs/interface.md', 'packages/sdk/README.md', 'README.md']
    .flatMap(blocksOf)
    .filter(({ language }) => language === 'ts');
  const client = blocks.find(({ page }) => page === 'docs/interface.md')?.code ?? '';
  writeFileSync(join(reader.folder, 'package.json'), '{"type":"module"}');
  const files = blocks.map(({ page, line, code, exampleOf }) => {
    const file = `${page.replaceAll(/\W/g, '-')}-line-${line}.ts`;
    writeFileSync(join(reader.folder, file), exampleOf === null ? code : `${client}\n${code}`);
    return file;
  });
  const checked = await run('node_modules/.bin/tsc', [...options, ...files], { cwd: reader.folder }).catch(
    (failure: { stdout: string; stderr: string }) => failure,
  );
  expect(`${checked.stdout}${checked.stderr}`).toBe('');
});
