import { describe, expect, it } from 'vitest';
import { printable, shownInTerminal } from './printable.ts';

describe('printable', () => {
  it.each([
    ['moves of the cursor', 'a\u001b[2J\u001b[10;5Hb'],
    ['a title with its text', 'a\u001b]0;owned\u0007b'],
    ['a link that ends as strings end', 'a\u001b]8;;http://x\u001b\\b'],
    ['the eight-bit forms', 'a\u009b2Jb\u009d'],
    ['bells, backspaces and returns', 'a\u0007\u0008\rb'],
    ['an escape at the end', 'ab\u001b'],
    ['colours', '\u001b[31ma\u001b[0mb'],
  ])('takes out %s', (_, text) => {
    expect(printable(text)).toBe('ab');
  });

  it('hides nothing behind a title that never ends', () => {
    expect(printable('a\u001b]0;b')).toBe('a0;b');
  });

  it('leaves tabs, new lines and every letter', () => {
    expect(printable('ä\t漢\n🙂')).toBe('ä\t漢\n🙂');
  });
});

describe('shownInTerminal', () => {
  it('leaves colours and nothing else', () => {
    expect(shownInTerminal('\u001b[31mred\u001b[39m\u001b[2J')).toBe('\u001b[31mred\u001b[39m');
  });
});
