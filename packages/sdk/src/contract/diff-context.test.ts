import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { diffWithContext } from './diff-context.ts';

const folder = mkdtempSync(join(tmpdir(), 'muster-context-'));
afterAll(() => rmSync(folder, { recursive: true }));

const gitDiff = (context: number): string => {
  try {
    return execFileSync('git', ['diff', '--no-index', `-U${context}`, 'before', 'after'], {
      cwd: folder,
      encoding: 'utf8',
    });
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
};

const line = (at: number) => (at % 25 === 0 ? `function part${at}() {` : `  line ${at};`);
const before = Array.from({ length: 200 }, (_, at) => line(at));

it.each([
  ['changes far from each other', [40, 60, 61, 130]],
  ['changes at both ends', [0, 199]],
  ['changes beside each other', [99, 106, 113]],
])('narrows a diff as git does: %s', (_, changed) => {
  writeFileSync(join(folder, 'before'), `${before.join('\n')}\n`);
  const after = before.map((text, at) => (changed.includes(at) ? `${text} // new\nadded` : text));
  writeFileSync(join(folder, 'after'), after.join('\n'));
  for (const context of [0, 1, 3, 10]) expect(diffWithContext(gitDiff(100), context)).toBe(gitDiff(context));
});

it('leaves a diff alone that has no more context, was cut off or is none', () => {
  const cut =
    'diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n-b\n+c\n[The diff is longer than this.]\n';
  for (const text of [cut, '', 'Binary files differ\n', '+words', '@@ -1 +1 @@\n-a\n+b\n'])
    expect(diffWithContext(text, 3)).toBe(text);
});

it('takes linear time, and returns no more than it got, with a diff of very many tiny changes', () => {
  const pairs = 60_000;
  const hostile = `@@ -1,${pairs} +1,${2 * pairs} @@\n${' 1\n+1\n'.repeat(pairs)}`;
  const from = process.cpuUsage();
  expect(diffWithContext(hostile, 0)).toBe(hostile);
  const { user } = process.cpuUsage(from);
  const quarter = process.cpuUsage();
  diffWithContext(hostile.slice(0, hostile.length / 4), 0);
  expect(user).toBeLessThan(12 * process.cpuUsage(quarter).user + 200_000);
});
