import { expect, test } from 'vitest';
import { readSources, readText } from './sources.ts';

const production = readSources()
  .filter(({ isTest }) => !isTest)
  .map(({ path }) => readText(path));

/** A poll leaves out what it can't claim: these are in no reply. */
const ofClaims = ['NOT_CLAIMABLE', 'OTHER_POOL', 'POOL_FULL'];

const namesIn = (text: string, pattern: RegExp): string[] => [
  ...new Set([...text.matchAll(pattern)].map(([, name = '']) => name)),
];

test.each([
  ['type', /\b(?:precondition|preconditionFailure)\(\s*'([A-Z_]+)'/g],
  ['reason', /\b(?:errorInfo|aborted)\(\s*'([A-Z_]+)'/g],
])('docs/errors.md lists each %s of an error, and none that the code does not have', (field, pattern) => {
  const [, page = ''] = readText('docs/errors.md').split(new RegExp(`^\`${field}\`.*:$`, 'm'));
  const listed = namesIn(page.split('\n\n')[1] ?? '', /^\| `([A-Z_]+)` \|/gm);
  const used = production.flatMap((text) => namesIn(text, pattern));
  expect(used.length).toBeGreaterThan(5);
  expect(used.filter((name) => !listed.includes(name) && !ofClaims.includes(name))).toEqual([]);
  expect(listed.filter((name) => !production.some((text) => text.includes(`'${name}'`)))).toEqual([]);
});
