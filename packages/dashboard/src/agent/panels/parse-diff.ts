export type FileChange = 'changed' | 'added' | 'deleted' | 'renamed' | 'binary';

/** One file of a diff. */
export interface DiffFile {
  /** Empty when the diff is of one repository only. */
  readonly repo: string;
  readonly path: string;
  /** Where it was before, if it was moved. */
  readonly oldPath: string;
  readonly change: FileChange;
  readonly insertions: number;
  readonly deletions: number;
  /** Its hunks, without the lines that name the file. */
  readonly text: string;
}

export interface ParsedDiff {
  readonly files: readonly DiffFile[];
  /** The service keeps only so much of a long one. */
  readonly isCut: boolean;
}

/** How the runner ends a diff that was too long to keep. */
const cutLine = '[The diff is longer than this.]';

interface OpenFile {
  repo: string;
  path: string;
  oldPath: string;
  change: FileChange;
  insertions: number;
  deletions: number;
  lines: string[];
}

/** The files of a unified diff as git writes it; with several repositories, each begins with `# <its address>`. */
export function parseDiff(diff: string): ParsedDiff {
  const files: OpenFile[] = [];
  let repo = '';
  let open: OpenFile | undefined;
  let isCut = false;
  for (const line of diff.split('\n')) {
    if (line.startsWith('diff --git ')) {
      open = { repo, ...pathsOf(line), change: 'changed', insertions: 0, deletions: 0, lines: [] };
      files.push(open);
    } else if (line === cutLine) {
      isCut = true;
      open = undefined;
    } else if (line.startsWith('# ')) {
      repo = line.slice(2);
      open = undefined;
    } else if (open) take(open, line);
  }
  return { files: files.map(({ lines, ...file }) => ({ ...file, text: textOf(lines) })), isCut };
}

/** Behind its first hunk every line has a sign, so whatever its words look like, it is content. */
function take(file: OpenFile, line: string): void {
  if (file.lines.length === 0 && !line.startsWith('@@')) return note(file, line);
  if (line.startsWith('+')) file.insertions += 1;
  if (line.startsWith('-')) file.deletions += 1;
  file.lines.push(line);
}

const textOf = (lines: readonly string[]): string => lines.join('\n').replace(/\n+$/, '');

/** What stands between a file's first line and its hunks. */
function note(file: OpenFile, line: string): void {
  if (line.startsWith('new file mode')) file.change = 'added';
  else if (line.startsWith('deleted file mode')) file.change = 'deleted';
  else if (line.startsWith('Binary files ') || line === 'GIT binary patch') file.change = 'binary';
  else if (line.startsWith('rename from ')) file.oldPath = unquoted(line.slice('rename from '.length));
  else if (line.startsWith('rename to ')) {
    file.path = unquoted(line.slice('rename to '.length));
    file.change = 'renamed';
  } else if (line.startsWith('+++ b/') || line.startsWith('+++ "b/')) {
    file.path = withoutSide(line.slice('+++ '.length));
  } else if (line.startsWith('--- a/') || line.startsWith('--- "a/')) {
    if (file.change === 'deleted') file.path = withoutSide(line.slice('--- '.length));
  }
}

/** Both names are the same unless the file was moved, and then they are said again below. */
function pathsOf(line: string): { path: string; oldPath: string } {
  const names = line.slice('diff --git '.length);
  const half = (names.length - 1) / 2;
  const isTwice =
    names[half] === ' ' && withoutSide(names.slice(0, half)) === withoutSide(names.slice(half + 1));
  return { path: isTwice ? withoutSide(names.slice(half + 1)) : names, oldPath: '' };
}

const withoutSide = (name: string): string => unquoted(name.replace(/\t$/, '')).replace(/^[ab]\//, '');

/** Git puts a name with unusual letters in quotes, and those letters as the octal numbers of their bytes. */
function unquoted(name: string): string {
  if (!name.startsWith('"') || !name.endsWith('"')) return name;
  const bytes: number[] = [];
  const encoder = new TextEncoder();
  for (const [piece] of name.slice(1, -1).matchAll(/\\[0-7]{3}|\\.|[^\\]+/gs)) {
    if (/^\\[0-7]{3}$/.test(piece)) bytes.push(Number.parseInt(piece.slice(1), 8));
    else
      bytes.push(...encoder.encode(piece.startsWith('\\') ? (escapes[piece[1] ?? ''] ?? piece[1]) : piece));
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r' };
