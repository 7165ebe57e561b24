import { expect, test } from 'vitest';
import { breakLine, type Edit, indent, outdent } from './editor-keys.ts';

/** `[` and `]` are the ends of the selection, before and after. */
function after(edit: (text: string, from: number, to: number) => Edit, marked: string): string {
  const from = marked.indexOf('[');
  const to = marked.indexOf(']') - 1;
  const text = marked.replace(/[[\]]/g, '');
  const { from: start, to: stop, insert, selectFrom, selectTo } = edit(text, from, to);
  const next = `${text.slice(0, start)}${insert}${text.slice(stop)}`;
  return `${next.slice(0, selectFrom)}[${next.slice(selectFrom, selectTo)}]${next.slice(selectTo)}`;
}

test('Tab goes to the next step', () => {
  expect(after(indent, 'a:\n[]b')).toBe('a:\n  []b');
  expect(after(indent, 'a:\nb[]')).toBe('a:\nb []');
  expect(after(indent, 'a: [old]')).toBe('a:  []');
});

test('Tab moves the selected lines in, and Shift and Tab out again', () => {
  expect(after(indent, 'a:\n[b\n\nc]\nd')).toBe('a:\n  [b\n\n  c]\nd');
  expect(after(outdent, 'a:\n  [b\n\n  c]\nd')).toBe('a:\n[b\n\nc]\nd');
  expect(after(outdent, ' b[]')).toBe('b[]');
  expect(after(outdent, '[]b')).toBe('[]b');
});

test('a new line begins where the last did, and deeper behind a colon', () => {
  expect(after(breakLine, '  a: x[]')).toBe('  a: x\n  []');
  expect(after(breakLine, 'repos:[]\nb')).toBe('repos:\n  []\nb');
  expect(after(breakLine, 'a[xx]b')).toBe('a\n[]b');
});
