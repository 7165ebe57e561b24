import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { plantedBugs } from '../planted/bugs.ts';

test.each(plantedBugs.map((bug) => [bug.name, bug] as const))(
  'the planted bug still fits the code: %s',
  (_, { file, find, suites }) => {
    const source = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
    expect(source.split(find).length - 1, `occurrences in ${file}`).toBe(1);
    for (const suite of suites) readFileSync(new URL(`../../${suite}`, import.meta.url));
  },
);

test('every file of planted bugs is in the list', async () => {
  const folder = new URL('../planted/', import.meta.url);
  const files = readdirSync(folder).filter((name) => name.endsWith('-bugs.ts'));
  const exported = await Promise.all(
    files.map(async (name) => Object.values(await import(new URL(name, folder).href)).flat()),
  );
  for (const bug of exported.flat()) expect(plantedBugs).toContain(bug);
});
