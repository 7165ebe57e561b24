import picomatch from 'picomatch';
import { describe, expect, it } from 'vitest';
import { matchesGlob } from './matches-glob.ts';

const paths = [
  'a.ts',
  'src/a.ts',
  'src/b/c.ts',
  'src/b/c.tsx',
  'src/.hidden/x',
  '.env',
  'docs/readme.md',
  'docs/deep/er/readme.md',
  'srcs/a.ts',
  'a+b.ts',
  'src/a$.ts',
];
const patterns = [
  'src/**',
  '**',
  '*',
  '**/*.ts',
  '*.ts',
  'src/*.ts',
  'src/**/c.ts',
  'docs/**/readme.md',
  '**/readme.md',
  '?.ts',
  'a.ts',
  'src/b',
  'src*/a.ts',
  '.env',
  'src/**/*',
  '*/*/*.tsx',
  'src/a$.ts',
];

describe('a simple pattern', () => {
  it.each(patterns)('%s fits the files that it fits for the service', (pattern) => {
    const isMatch = picomatch(pattern, { dot: true });
    expect(paths.filter((path) => matchesGlob(pattern, path))).toEqual(paths.filter((path) => isMatch(path)));
  });
});

it.each(['src/{a,b}/**', '[ab].ts', '!src/**', '@(a|b).ts', 'a\\*'])(
  'nothing is said of %s, which only the service can judge',
  (pattern) => {
    expect(matchesGlob(pattern, 'src/a.ts')).toBeUndefined();
  },
);
