import { describe, expect, it } from 'vitest';
import { terminalText } from './terminal-text.ts';

describe('the text of a terminal', () => {
  it('has no colours, titles, links or moves of the cursor', () => {
    expect(terminalText('\u001b[1;31mred\u001b[0m \u001b[2Kand\u001b[?25l plain\u001b(B')).toBe(
      'red and plain',
    );
    expect(terminalText('\u001b]0;a title\u0007\u001b]8;;https://x\u001b\\link\u001b]8;;\u001b\\')).toBe(
      'link',
    );
  });

  it('keeps of a line that was written over what came last', () => {
    expect(terminalText('10 %\r50 %\r100 %\nnext\r\nlast\r')).toBe('100 %\nnext\nlast');
    expect(terminalText('ab\bc')).toBe('ac');
  });

  it('keeps tabs and lines, and drops what has no look', () => {
    expect(terminalText('a\tb\n\u0000c\u0007')).toBe('a\tb\nc');
  });
});
