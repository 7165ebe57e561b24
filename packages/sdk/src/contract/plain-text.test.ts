import { describe, expect, test } from 'vitest';
import { plainText } from './plain-text.ts';

describe('a plain text', () => {
  test.each([
    ['builds green on Node 22', 'builds green on Node 22'],
    ['\n\n  First.\r\n\tSecond.  \n', 'First. Second.'],
    ['## Result\n\n- **one**\n- `two`\n1. three\n> four', 'Result one two three four'],
    ['Run:\n```sh\nnpm test\n```\nDone.', 'Run: npm test Done.'],
    ['See [the log](https://example.com/a) and ![a picture](x.png).', 'See the log and a picture.'],
    ['snake_case and 2 * 3 stay', 'snake_case and 2 * 3 stay'],
    ['a\u0000b\u001b[31mc\u007f\u009b\u2028d', 'a b [31mc d'],
    ['file\u202egnp.exe \u2066x', 'filegnp.exe x'],
    ['👩‍👩‍👧 fine', '👩‍👩‍👧 fine'],
    ['the key is ***, **really ***', 'the key is ***, really ***'],
    ['', ''],
  ])('of %j is %j', (text, plain) => {
    expect(plainText(text, 280)).toBe(plain);
  });

  test('is cut, but not within a character', () => {
    expect(plainText('abcdef', 6)).toBe('abcdef');
    expect(plainText('abcdefg', 6)).toBe('abcde…');
    expect(plainText('abcd🙂fg', 6)).toBe('abcd…');
  });

  test('of a long text takes as long as of a short one', () => {
    const startMs = performance.now();
    for (const text of ['[', '`', '![', '1.', ' \t', '[a](']) plainText(text.repeat(1_000_000), 280);
    expect(performance.now() - startMs).toBeLessThan(500);
  });
});
