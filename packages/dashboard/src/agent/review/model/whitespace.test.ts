import { expect, test } from 'vitest';
import { diffLinesOf } from './diff-lines.ts';
import { withoutWhitespace } from './whitespace.ts';

test('lines that differ only in white space are unchanged, with both numbers', () => {
  const lines = diffLinesOf('@@ -1,3 +1,4 @@\n-if (a)\n-  b();\n+if (a) {\n+    b( );\n+}\n c');
  expect(
    withoutWhitespace(lines).map(({ text, side, oldLine, newLine }) => [side, oldLine, newLine, text]),
  ).toEqual([
    ['hunk', 0, 0, '@@ -1,3 +1,4 @@'],
    ['removed', 1, 0, '-if (a)'],
    ['added', 0, 1, '+if (a) {'],
    ['same', 2, 2, '     b( );'],
    ['added', 0, 3, '+}'],
    ['same', 3, 4, ' c'],
  ]);
});

test('lines that were only added or only removed stay', () => {
  const lines = diffLinesOf('@@ -1,2 +1,1 @@\n-a\n b\n+c');
  expect(withoutWhitespace(lines)).toEqual(lines);
});
