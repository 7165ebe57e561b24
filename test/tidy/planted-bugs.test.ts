import { readFileSync } from 'node:fs';
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

test('each planted bug is in the list once', () => {
  const names = plantedBugs.map(({ name }) => name);
  expect(names).toEqual([...new Set(names)]);
});
