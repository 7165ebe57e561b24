import { expect, it } from 'vitest';
import { diffViewOf } from './diff-view.ts';

it('the pushed diff is the default once something was pushed', () => {
  expect(diffViewOf(null, true)).toBe('pushed');
  expect(diffViewOf(null, false)).toBe('working-tree');
});

it('the address chooses, unless it names something else', () => {
  expect(diffViewOf('working-tree', true)).toBe('working-tree');
  expect(diffViewOf('pushed', false)).toBe('pushed');
  expect(diffViewOf('other', true)).toBe('pushed');
});
