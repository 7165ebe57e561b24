import { describe, expect, it } from 'vitest';
import { diffViewOf, parseDiff } from './diff-files.ts';

const changed = `diff --git a/src/a.ts b/src/a.ts
index 1f0c2aa..8e52d10 100644
--- a/src/a.ts
+++ b/src/a.ts
@@ -1,3 +1,3 @@
 one
-two
+zwei
 three
`;
const added = `diff --git a/notes/new file.md b/notes/new file.md
new file mode 100644
index 0000000..8e52d10
--- /dev/null
+++ b/notes/new file.md
@@ -0,0 +1,2 @@
+first
+second
`;

describe('a diff', () => {
  it('is split into files, each with its changes', async () => {
    const { files, isCut } = await parseDiff(changed + added);
    expect(isCut).toBe(false);
    expect(files).toMatchObject([
      { repo: '', path: 'src/a.ts', change: 'changed', insertions: 1, deletions: 1 },
      { path: 'notes/new file.md', change: 'added', insertions: 2, deletions: 0 },
    ]);
    expect(files[0]?.text).toBe('@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three');
  });

  it('names the repository of each file if there are several', async () => {
    const { files } = await parseDiff(
      `# https://git.example.com/a\n${changed}\n# https://git.example.com/b\n${added}`,
    );
    expect(files.map(({ repo, path }) => [repo, path])).toEqual([
      ['https://git.example.com/a', 'src/a.ts'],
      ['https://git.example.com/b', 'notes/new file.md'],
    ]);
  });

  it('recognizes renamed, deleted and binary files', async () => {
    const { files } = await parseDiff(`diff --git a/old.ts b/new.ts
similarity index 90%
rename from old.ts
rename to new.ts
diff --git a/gone.ts b/gone.ts
deleted file mode 100644
--- a/gone.ts
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/logo.png b/logo.png
index 1..2 100644
Binary files a/logo.png and b/logo.png differ
`);
    expect(files).toMatchObject([
      { path: 'new.ts', oldPath: 'old.ts', change: 'renamed', insertions: 0 },
      { path: 'gone.ts', change: 'deleted', deletions: 1 },
      { path: 'logo.png', change: 'binary', text: '' },
    ]);
  });

  it('treats every line of a hunk as content, even if it looks like a header', async () => {
    const { files } = await parseDiff(`diff --git a/a.sql b/a.sql
--- a/a.sql
+++ b/a.sql
@@ -1,3 +1,3 @@
--- a comment
+++ b/x
 diff --git a/b b/b
 # heading
\\ No newline at end of file
diff --git a/c b/c
--- a/c
+++ b/c
@@ -1 +1 @@
-1
+2
`);
    expect(files).toMatchObject([
      { path: 'a.sql', insertions: 1, deletions: 1 },
      { path: 'c', insertions: 1, deletions: 1 },
    ]);
  });

  it('reads file names that git quoted', async () => {
    const { files } = await parseDiff(
      'diff --git "a/gr\\303\\274n \\"1\\".txt" "b/gr\\303\\274n \\"1\\".txt"\nnew file mode 100644\n',
    );
    expect(files[0]?.path).toBe('grün "1".txt');
  });

  it('reports that it was cut, also in the middle of a hunk or of a header', async () => {
    const { files, isCut } = await parseDiff(
      'diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,900 +1,900 @@\n-1\n+2\n[The diff is longer than this.]\n',
    );
    expect(isCut).toBe(true);
    expect(files).toMatchObject([{ path: 'a', insertions: 1, deletions: 1 }]);
    const inHeader = 'diff --git a/a b/a\n--- a/a\n[The diff is longer than this.]\n';
    expect(await parseDiff(inHeader)).toMatchObject({ isCut: true, files: [{ path: 'a', text: '' }] });
  });

  it('without text has no files', async () => {
    expect(await parseDiff('')).toEqual({ files: [], isCut: false });
  });

  it('is parsed in a short time, however many files and lines it has', async () => {
    const many = await parseDiff(added.repeat(2_000));
    expect(many.files).toHaveLength(2_000);
    const long = await parseDiff(`${changed}${'+x\n'.repeat(500_000)}`);
    expect(long.files).toMatchObject([{ insertions: 500_001 }]);
  });

  it('is the pushed one by default once something was pushed; the address may name another', () => {
    expect(diffViewOf(null, true)).toBe('pushed');
    expect(diffViewOf(null, false)).toBe('working-tree');
    expect(diffViewOf('working-tree', true)).toBe('working-tree');
    expect(diffViewOf('pushed', false)).toBe('pushed');
    expect(diffViewOf('other', true)).toBe('pushed');
  });
});
