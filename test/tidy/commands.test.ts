import { expect, test } from 'vitest';
import { filesBelow, readText } from './sources.ts';

/** What people copy from these files has to work, and must not download the programs of others. */
const files = filesBelow('').filter((path) => /\.(md|ts|tsx|mjs|ya?ml|sh)$/.test(path));
const linesOf = (path: string): string[] => readText(path).split('\n');

test('npx muster is written only where the program is installed: elsewhere it is a package of others', () => {
  const places = files
    .filter((path) => !path.startsWith('test/'))
    .flatMap((path) =>
      linesOf(path)
        .filter(
          (line) => /\bnpx (-\S+ )*@?muster\b/.test(line) && !/in the folder of the checkout/.test(line),
        )
        .map(() => path),
    );
  // Its commands run in the folder of the checkout, as it says above them.
  expect(new Set(places)).toEqual(new Set(['README.md']));
  expect(readText('README.md')).toMatch(/in the same folder\..*absolute path[\s\S]*?npx muster/);
});

test('every script of npm that a page or a workflow runs exists', () => {
  const { scripts } = JSON.parse(readText('package.json')) as { scripts: Record<string, string> };
  const isRun = /\bnpm run (?!.*(?:-w |--if-present))([\w:-]+)/g;
  const wrong = files
    .filter((path) => /\.(md|ya?ml)$/.test(path))
    .flatMap((path) =>
      linesOf(path).flatMap((line) =>
        [...line.matchAll(isRun)].flatMap(([, name = '']) => (name in scripts ? [] : [`${path}: ${name}`])),
      ),
    );
  expect(wrong).toEqual([]);
});
