import { expect, test } from 'vitest';
import { fileGroups } from './file-tree.ts';

const file = (path: string, repo = '') =>
  ({ repo, path, oldPath: '', change: 'changed', insertions: 0, deletions: 0, text: '' }) as const;

test('changed files are grouped by repository and folder, and filtered by a text in their path', () => {
  const files = [file('README.md'), file('src/a.ts'), file('src/model/b.ts'), file('src/c.ts')];
  expect(fileGroups(files, '')).toEqual([
    { folder: '', files: [0] },
    { folder: 'src', files: [1, 3] },
    { folder: 'src/model', files: [2] },
  ]);
  expect(fileGroups(files, 'SRC/m')).toEqual([{ folder: 'src/model', files: [2] }]);
  expect(fileGroups([file('a/b', 'https://git/x')], '')).toEqual([{ folder: 'https://git/x a', files: [0] }]);
});
