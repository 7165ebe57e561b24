import { marked } from 'marked';
import { describe, expect, test } from 'vitest';
import { isParsable } from './markdown-limits.ts';

const length = 40_000;
const of = (piece: string): string => piece.repeat(Math.ceil(length / piece.length)).slice(0, length);

describe('a text of an agent', () => {
  test.each([
    ['prose', 'A sentence with *some* emphasis and `code`.\n\n'.repeat(500)],
    ['one long paragraph', 'word '.repeat(9_000)],
    ['a list in lists', '- a\n  - b\n    - c\n      1. d\n'.repeat(200)],
    ['a quote in quotes', '> > > as you said\n> yes\n'],
    ['a table', `|a|b|c|\n|-|-|-|\n${'|1|2|3|\n'.repeat(500)}`],
    ['code with all kinds of characters', `\`\`\`ts\n${'a[0] = *b < c_d | e;\n'.repeat(1_000)}\`\`\`\n`],
    ['code that is indented deeply', `\`\`\`\n${' '.repeat(200)}- x\n\`\`\``],
    ['a line', '-'.repeat(300)],
  ])('is parsed as Markdown: %s', (_, text) => {
    expect(isParsable(text)).toBe(true);
  });

  test.each([
    ['5,000 quotes', '>'.repeat(5_000)],
    ['quotes with blanks', of('> ')],
    ['lists in one line', of('- ')],
    ['numbered lists in one line', of('1. ')],
    [
      'lists that are indented ever further',
      Array.from({ length: 200 }, (_, i) => `${' '.repeat(i * 2)}- x`).join('\n'),
    ],
    ['emphasis in emphasis', of('a*b_c')],
    ['strong emphasis', of('**a ')],
    ['brackets', of('[')],
    ['images', of('![')],
    ['code that never ends', of('`a``')],
    ['tags', of('<a ')],
    [
      'a table of millions of cells',
      `${'|a'.repeat(2_000)}\n${'|-'.repeat(2_000)}\n${'|a|\n'.repeat(1_000)}`,
    ],
    ['a line of 256 KiB', 'x'.repeat(256 * 1024)],
  ])('is shown as plain text: %s', (_, text) => {
    expect(isParsable(text)).toBe(false);
  });
});

/** A text that passes the check must neither overflow the parser's stack nor make more tokens than characters. */
test.each([
  '>',
  '- ',
  '1. ',
  '*',
  '_a',
  '**a ',
  'a*b_c',
  '[',
  '[](',
  '![',
  '`a``',
  '<',
  '</',
  '|',
  '~~a',
  'www.a',
  '\\',
  '# ',
  '\n',
  'a\n',
  '-\n',
  '> a\n>> b\n',
  '- a\n\n',
  '[a]: b\n',
  '```\n',
  '&amp',
])('a text that repeats %j is rejected or parsed', (piece) => {
  const text = of(piece);
  if (isParsable(text)) expect(marked.lexer(text).length).toBeLessThanOrEqual(text.length);
});
