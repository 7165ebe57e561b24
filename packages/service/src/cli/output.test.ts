import { describe, expect, it } from 'vitest';
import { printable, printableWithColours } from './output.ts';

describe('printable', () => {
  it.each([
    ['cursor movements', 'a\u001b[2J\u001b[10;5Hb'],
    ['a window title', 'a\u001b]0;owned\u0007b'],
    ['a link with a string terminator', 'a\u001b]8;;http://x\u001b\\b'],
    ['eight-bit codes', 'a\u009b2Jb\u009d'],
    ['bells, backspaces and carriage returns', 'a\u0007\u0008\rb'],
    ['an escape character at the end', 'ab\u001b'],
    ['colours', '\u001b[31ma\u001b[0mb'],
  ])('removes %s', (_, text) => {
    expect(printable(text)).toBe('ab');
  });

  it('keeps the text after an unterminated title', () => {
    expect(printable('a\u001b]0;b')).toBe('a0;b');
  });

  it('keeps tabs, new lines and all letters', () => {
    expect(printable('ä\t漢\n🙂')).toBe('ä\t漢\n🙂');
  });
});

describe('printableWithColours', () => {
  it('keeps colours and removes other codes', () => {
    expect(printableWithColours('\u001b[31mred\u001b[39m\u001b[2J')).toBe('\u001b[31mred\u001b[39m');
  });
});
