import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { blocksOf } from './code-blocks.ts';
import { PageShell } from './page-shell.ts';

const run = promisify(execFile);
const shell = new PageShell();
afterAll(() => shell.close());

/** The strictest options that a reader may use. */
const options = [
  ...['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--skipLibCheck'],
  ...['--target', 'es2023', '--lib', 'es2023', '--module', 'nodenext', '--types', 'node'],
];

test('the TypeScript examples compile', async () => {
  const blocks = ['docs/interface.md', 'packages/sdk/README.md', 'README.md']
    .flatMap(blocksOf)
    .filter(({ language }) => language === 'ts');
  writeFileSync(join(shell.folder, 'package.json'), '{"type":"module"}');
  const files = blocks.map((block) => {
    const { page, line, code } = block;
    const file = `${page.replaceAll(/\W/g, '-')}-line-${line}.ts`;
    // The first block of a page makes the client that the others use.
    const client = blocks.find((other) => other.page === page);
    writeFileSync(join(shell.folder, file), block === client ? code : `${client?.code}\n${code}`);
    return file;
  });
  const checked = await run('node_modules/.bin/tsc', [...options, ...files], { cwd: shell.folder }).catch(
    (failure: { stdout: string; stderr: string }) => failure,
  );
  expect(`${checked.stdout}${checked.stderr}`).toBe('');
});
