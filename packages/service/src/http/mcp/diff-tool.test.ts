import { expect, it } from 'vitest';
import { diffReply } from './diff-tool.ts';

const stat = { files: 2, insertions: 3, deletions: 1 };

it('a long diff is shown in parts of whole lines, which together are the diff', () => {
  const diff = `${'+one line of the diff\n'.repeat(5_000)}+${'😀'.repeat(60_000)}\n+end\n`;
  const reply = { branch: 'muster/a', diffStat: stat, diff, workingTree: null };
  const parts: string[] = [];
  for (let from: number | null = 0; from !== null; ) {
    const { text, data } = diffReply('a', reply, false, from);
    const { diff: part, next } = data as { diff: string; next: number | null };
    expect(text.startsWith('a on muster/a: 2 files, +3 -1\n')).toBe(true);
    expect(text.length).toBeLessThan(50_300);
    expect(part).not.toMatch(/[\ud800-\udbff]$|^[\udc00-\udfff]/);
    const cut = `(Cut: characters ${from} to ${next} of ${diff.length}. Pass from: ${next} for the next part.)`;
    expect(text.endsWith(cut)).toBe(next !== null);
    parts.push(part);
    from = next;
  }
  expect(parts.join('')).toBe(diff);
  expect(parts.length).toBeGreaterThan(4);
  expect(parts[0]?.endsWith('diff\n')).toBe(true);
});

it('says when there are no changes, and when a part starts beyond the end', () => {
  const reply = { branch: '', diffStat: null, diff: '', workingTree: { diffStat: stat, diff: '+x\n' } };
  expect(diffReply('a', reply, false, 0).text).toBe(
    'a has pushed nothing; workingTree: true shows unpushed changes.',
  );
  expect(diffReply('a', { ...reply, workingTree: null }, true, 0).text).toBe(
    'The working tree of a has no changes.',
  );
  expect(diffReply('a', reply, true, 0).text).toBe('The working tree of a: 2 files, +3 -1\n+x');
  expect(() => diffReply('a', reply, true, 4)).toThrow('must be at most 3, the length of the diff; got 4');
});
