import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { globProblem, matchingGlobs } from './glob.ts';

const matches = (pattern: string, path: string): boolean => matchingGlobs([pattern], [path]).has(pattern);

const files = [
  'a.ts',
  '.env',
  'src/a.ts',
  'src/b/c.ts',
  'src/b/c.tsx',
  'srcs/a.ts',
  'docs/readme.md',
  'docs/deep/er/readme.md',
  'app/(group)/[id].tsx',
  'ü.ts',
  '😀.ts',
];

describe('matchingGlobs', () => {
  it.each([
    ['src/**', ['src/a.ts', 'src/b/c.ts', 'src/b/c.tsx']],
    ['*', ['a.ts', '.env', 'ü.ts', '😀.ts']],
    ['**', files],
    ['*.ts', ['a.ts', 'ü.ts', '😀.ts']],
    ['?.ts', ['a.ts', 'ü.ts', '😀.ts']],
    ['**/*.ts', ['a.ts', 'src/a.ts', 'src/b/c.ts', 'srcs/a.ts', 'ü.ts', '😀.ts']],
    ['src/**/c.ts', ['src/b/c.ts']],
    ['src**/a.ts', ['src/a.ts', 'srcs/a.ts']],
    ['**/readme.md', ['docs/readme.md', 'docs/deep/er/readme.md']],
    ['[!a].ts', ['ü.ts', '😀.ts']],
    ['[a-c].ts', ['a.ts']],
    ['src/b/c.ts{,x}', ['src/b/c.ts', 'src/b/c.tsx']],
    ['{src/**,docs/*}', ['src/a.ts', 'src/b/c.ts', 'src/b/c.tsx', 'docs/readme.md']],
    ['src/b/c.@(ts|tsx)', ['src/b/c.ts', 'src/b/c.tsx']],
    ['src?(s)/a.ts', ['src/a.ts', 'srcs/a.ts']],
    ['docs/*(deep/|er/)readme.md', ['docs/readme.md', 'docs/deep/er/readme.md']],
    ['docs/+(deep/|er/)readme.md', ['docs/deep/er/readme.md']],
    ['app/(group)/\\[id\\].tsx', ['app/(group)/[id].tsx']],
    ['!**/*.{ts,tsx}', ['.env', 'docs/readme.md', 'docs/deep/er/readme.md']],
  ])('%s', (pattern, expected) => {
    expect(globProblem(pattern)).toBeNull();
    expect(files.filter((file) => matches(pattern, file))).toEqual(expected);
  });

  test('a character of two code units is not split where paths differ', () => {
    const paths = ['a/😀.ts', 'a/😁.ts', 'a/😁'];
    const patterns = ['a/😁*', 'a/?', 'a/[😀]', 'a/😂*', 'a/??', 'a/*s'];
    expect([...matchingGlobs(patterns, paths)]).toEqual(['a/😁*', 'a/?', 'a/*s']);
  });

  /** A pattern made of parts, and the regular expression that means the same. */
  const part: fc.Memo<[string, string]> = fc.memo((depth) =>
    depth <= 1
      ? fc.constantFrom<[string, string][]>(
          ['a', 'a'],
          ['b', 'b'],
          ['?', '[^/]'],
          ['*', '[^/]*'],
          ['[ab]', '[ab]'],
          ['[!a]', '[^a/]'],
        )
      : fc.oneof(part(1), group(depth - 1)),
  );
  const group: fc.Memo<[string, string]> = fc.memo((depth) =>
    fc
      .tuple(
        fc.constantFrom('{', '@', '?', '+', '*'),
        fc.array(sequence(depth), { minLength: 2, maxLength: 3 }),
      )
      .map(([kind, parts]): [string, string] => {
        const globs = parts.map(([glob]) => glob);
        const regExp = `(?:${parts.map(([, source]) => source).join('|')})`;
        if (kind === '{') return [`{${globs.join()}}`, regExp];
        return [`${kind}(${globs.join('|')})`, kind === '@' ? regExp : regExp + kind];
      }),
  );
  const sequence: fc.Memo<[string, string]> = fc.memo((depth) =>
    fc
      .array(part(depth), { minLength: 1, maxLength: 3 })
      .map((parts): [string, string] => [
        parts.map(([glob]) => glob).join(''),
        parts.map(([, source]) => source).join(''),
      ])
      // Two stars in a row are a globstar when nothing is beside them.
      .filter(([glob]) => !glob.includes('**')),
  );

  test('a generated pattern matches what the same regular expression matches', () => {
    const path = fc.string({ unit: fc.constantFrom('a', 'b', 'c', '/'), maxLength: 6 });
    fc.assert(
      fc.property(sequence(3), fc.array(path, { maxLength: 10 }), ([glob, source], paths) => {
        const regExp = new RegExp(`^${source}$`);
        expect([glob, paths.filter((p) => matches(glob, p))]).toEqual([
          glob,
          paths.filter((p) => regExp.test(p)),
        ]);
        const expected = [
          ...(paths.some((p) => regExp.test(p)) ? [glob] : []),
          ...(paths.some((p) => !regExp.test(p)) ? [`!${glob}`] : []),
        ];
        expect([...matchingGlobs([glob, `!${glob}`], paths)]).toEqual(expected);
      }),
      { seed: 10, numRuns: 2000 },
    );
  });

  it.each([
    ['nested repetitions', '*(*a)b'],
    ['many stars', `${'*a'.repeat(500)}b`],
    ['groups within groups', `${'+('.repeat(300)}a${')'.repeat(300)}b`],
    ['an automaton with very many states', `*a${'?'.repeat(500)}b`],
  ])('%s against long names that do not match comes to an end', (_, pattern) => {
    expect(globProblem(pattern)).toBeNull();
    expect(matches(pattern, 'a'.repeat(1000))).toBe(false);
  });

  test('a pattern that is not decided when the steps are used up counts as matching', () => {
    const patterns = Array.from({ length: 500 }, (_, i) => `${'*a'.repeat(500)}${i}`);
    const paths = Array.from({ length: 250 }, (_, i) => `${'a'.repeat(4000)}-${i}`);
    expect(matchingGlobs([...patterns, 'docs/**'], paths)).toContain('docs/**');
    expect(matchingGlobs(['docs/**'], paths).size).toBe(0);
  });

  test('ten thousand paths against ordinary patterns are decided', () => {
    const paths = Array.from({ length: 10_000 }, (_, i) => `packages/service/src/control/file-${i}.ts`);
    const patterns = Array.from({ length: 100 }, (_, i) => [`packages/p${i}/**`, `**/*.x${i}`]).flat();
    expect(matchingGlobs([...patterns, '**/control/**/file-9*.ts'], paths)).toEqual(
      new Set(['**/control/**/file-9*.ts']),
    );
  });
});

test.each([
  ['[a', 'must not end within "[…]" or with "\\"'],
  ['a\\', 'must not end within "[…]" or with "\\"'],
  ['{a,b', 'must close "{" with "}"'],
  ['@(a|b', 'must close "(" with ")"'],
  ['{a}', 'must have a "," in "{…}"; write "\\{" for a brace'],
  ['a!(b)', 'must not contain "!(…)": a pattern is negated by a "!" in front'],
  ['[z-a]', 'must have ranges in ascending order in "[…]"'],
])('%s is not a glob', (pattern, problem) => {
  expect(globProblem(pattern)).toBe(problem);
});
