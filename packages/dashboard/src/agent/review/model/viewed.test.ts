import { describe, expect, it } from 'vitest';
import type { DiffFile } from '../../panels/model/diff-files.ts';
import { contentOf, isViewed, storedViewed, storeViewed } from './viewed.ts';

const file: DiffFile = {
  repo: '',
  path: 'a.ts',
  oldPath: '',
  change: 'changed',
  insertions: 1,
  deletions: 1,
  text: '@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three',
};

class MemoryStorage {
  readonly values = new Map<string, string>();
  readonly getItem = (name: string) => this.values.get(name) ?? null;
  readonly setItem = (name: string, value: string) => void this.values.set(name, value);
  readonly removeItem = (name: string) => void this.values.delete(name);
}

describe('a viewed file', () => {
  const viewed = { ' a.ts': contentOf(file) };

  it('stays viewed when only what is around its changes is another', () => {
    expect(isViewed(viewed, { ...file, text: '@@ -2,1 +2,1 @@\n-two\n+zwei' })).toBe(true);
  });

  it('is not viewed after another change', () => {
    expect(isViewed(viewed, { ...file, text: file.text.replace('zwei', 'deux') })).toBe(false);
    expect(isViewed(viewed, { ...file, oldPath: 'b.ts' })).toBe(false);
    expect(isViewed({}, file)).toBe(false);
  });

  it('is stored by person and agent, for the last ones that were reviewed', () => {
    const storage = new MemoryStorage();
    for (let at = 0; at < 102; at++) storeViewed(storage, `ada ${at}`, viewed);
    expect(storedViewed(storage, 'ada 101')).toEqual(viewed);
    expect(storedViewed(storage, 'ada 1')).toEqual({});
    expect(storage.values.size).toBe(101);
    storage.setItem('muster.viewed ada 5', '[');
    expect(storedViewed(storage, 'ada 5')).toEqual({});
  });
});
