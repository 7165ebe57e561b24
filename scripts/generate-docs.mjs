/**
 * Generates docs/errors.md, docs/limits.md and docs/reference.md, and the blocks of docs/interface.md and docs/cli.md
 * between `<!-- generated: NAME -->` and `<!-- end -->`, from the contract and the commands. With `--check` it writes
 * nothing and fails if a page is out of date. Build the packages first (`npm run build`).
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { commandBlocks } from './docs/command-blocks.mjs';
import { errorsPage } from './docs/errors-page.mjs';
import { interfaceBlocks } from './docs/interface-blocks.mjs';
import { limitsPage } from './docs/limits-page.mjs';
import { withBlocks } from './docs/markdown.mjs';
import { referencePage } from './docs/reference-page.mjs';

const fileOf = (page) => new URL(`../docs/${page}`, import.meta.url);
const read = (page) => (existsSync(fileOf(page)) ? readFileSync(fileOf(page), 'utf8') : '');

const pages = {
  'errors.md': errorsPage,
  'limits.md': limitsPage,
  'reference.md': referencePage,
  'interface.md': withBlocks(read('interface.md'), 'docs/interface.md', interfaceBlocks),
  'cli.md': withBlocks(read('cli.md'), 'docs/cli.md', commandBlocks),
};

const stale = Object.keys(pages).filter((page) => read(page) !== pages[page]);
if (process.argv.includes('--check')) {
  for (const page of stale) process.stderr.write(`docs/${page} is out of date: run npm run docs\n`);
  process.exitCode = stale.length > 0 ? 1 : 0;
} else {
  for (const page of stale) {
    writeFileSync(fileOf(page), pages[page]);
    process.stdout.write(`wrote docs/${page}\n`);
  }
}
