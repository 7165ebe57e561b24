import { describe, expect, it } from 'vitest';
import { cutText } from './cut-text.ts';

describe('cutText', () => {
  it('does not change a short text', () => {
    expect(cutText('abc', 3)).toEqual({ text: 'abc', truncated: false });
    expect(cutText('é', 2)).toEqual({ text: 'é', truncated: false });
    expect(cutText('', 0)).toEqual({ text: '', truncated: false });
  });

  it('cuts by bytes, but not inside a character', () => {
    expect(cutText('abcd', 3)).toEqual({ text: 'abc', truncated: true });
    expect(cutText('aé', 2)).toEqual({ text: 'a', truncated: true });
    expect(cutText('a😀b', 5)).toEqual({ text: 'a😀', truncated: true });
    expect(cutText('a😀b', 4)).toEqual({ text: 'a', truncated: true });
  });
});
