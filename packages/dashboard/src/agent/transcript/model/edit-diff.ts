import { type RowOf, stringIn } from './rows.ts';
import { type Fields, inputOf } from './tool-call.ts';

/** One replacement that a tool call requests. */
export interface Edit {
  readonly path: string;
  readonly before: string;
  readonly after: string;
}

const textIn = (fields: Fields, name: string): string =>
  typeof fields[name] === 'string' ? fields[name] : '';

/** The replacements that an editing tool of Claude Code requests; none for other tools. */
export function editsOf(row: RowOf<'tool'>): readonly Edit[] {
  const input = inputOf(row);
  const path = workspacePath(row) || textIn(input, 'file_path') || textIn(input, 'notebook_path');
  switch (stringIn(row.call?.data ?? {}, 'tool')) {
    case 'Edit':
      return [editIn(path, input)];
    case 'MultiEdit':
      return Array.isArray(input.edits)
        ? input.edits.map((edit) => editIn(path, (edit ?? {}) as Fields))
        : [];
    case 'Write':
      return [{ path, before: '', after: textIn(input, 'content') }];
    case 'NotebookEdit':
      return [{ path, before: '', after: textIn(input, 'new_source') }];
    default:
      return [];
  }
}

const editIn = (path: string, fields: Fields): Edit => ({
  path,
  before: textIn(fields, 'old_string'),
  after: textIn(fields, 'new_string'),
});

/** The runner shows paths relative to the workspace. */
const workspacePath = ({ call }: RowOf<'tool'>): string =>
  /^(?:Edit|Write) (.+)$/s.exec(call?.text ?? '')?.[1] ?? '';

/** Comparing takes quadratic time, so texts that differ in more lines are shown as a full replacement. */
const maxEditLength = 2_000;

/** The edits as one unified diff. The diff library is loaded on first use. */
export async function diffOfEdits(edits: readonly Edit[]): Promise<string> {
  const { diffLines } = await import('diff');
  const lines = edits.flatMap(({ before, after }, at) => [
    ...(edits.length > 1 ? [`@@ ${at + 1} of ${edits.length} @@`] : []),
    ...(
      diffLines(before, after, { maxEditLength }) ?? [
        { value: before, added: false, removed: true },
        { value: after, added: true, removed: false },
      ]
    ).flatMap(({ value, added, removed }) => withSign(value, added ? '+' : removed ? '-' : ' ')),
  ]);
  const path = edits[0]?.path ?? '';
  return [`--- ${path}`, `+++ ${path}`, ...lines].join('\n');
}

const withSign = (text: string, sign: string): string[] =>
  text === ''
    ? []
    : text
        .replace(/\n$/, '')
        .split('\n')
        .map((line) => `${sign}${line}`);

/**
 * The file changes that Codex reports, as one unified diff. Codex sends per file a line with the kind and the path, then
 * its hunks, or the whole text of a new or deleted file. Undefined for any other text.
 */
export function diffOfChanges(row: RowOf<'tool'>, text: string): string | undefined {
  const { data } = row.call ?? {};
  if (data?.tool !== 'apply_patch' || !Array.isArray(data.files)) return undefined;
  const changes: Change[] = [];
  for (const line of text.replace(/\n$/, '').split('\n')) {
    const change = changeIn(line, data.files);
    if (change) changes.push(change);
    else changes.at(-1)?.lines.push(line);
  }
  return changes.length === 0 ? undefined : changes.flatMap(hunksOf).join('\n');
}

interface Change {
  readonly kind: string;
  readonly file: string;
  readonly lines: string[];
}

function changeIn(line: string, files: readonly unknown[]): Change | undefined {
  const [, kind = '', path = ''] = /^(add|update|delete) (.+)$/.exec(line) ?? [];
  const file = files.find((name) => path === name || path.endsWith(`/${name}`));
  return typeof file === 'string' && path !== '' ? { kind, file, lines: [] } : undefined;
}

function hunksOf({ kind, file, lines }: Change): string[] {
  const head = [
    `--- ${kind === 'add' ? '/dev/null' : file}`,
    `+++ ${kind === 'delete' ? '/dev/null' : file}`,
  ];
  // Codex may also send a new file as a hunk.
  if (kind === 'update' || lines.some((line) => line.startsWith('@@ '))) return [...head, ...lines];
  const range = kind === 'add' ? `-0,0 +1,${lines.length}` : `-1,${lines.length} +0,0`;
  return [...head, `@@ ${range} @@`, ...lines.map((line) => `${kind === 'add' ? '+' : '-'}${line}`)];
}
