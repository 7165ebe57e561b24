import { expect, it } from 'vitest';
import { unpushedNote } from './unpushed-note.ts';

it('counts commits and files, and leaves out what there is none of', () => {
  expect(unpushedNote({ commits: 2, files: 1 })).toBe('unpushed: 2 commits, 1 file');
  expect(unpushedNote({ commits: 1, files: 0 })).toBe('unpushed: 1 commit');
  expect(unpushedNote({ commits: 0, files: 3 })).toBe('unpushed: 3 files');
});

it('is empty when everything is pushed, and before the first look', () => {
  expect(unpushedNote({ commits: 0, files: 0 })).toBe('');
  expect(unpushedNote(null)).toBe('');
});
