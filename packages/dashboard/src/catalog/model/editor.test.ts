import { describe, expect, test } from 'vitest';
import { knownFields } from './document-schema.ts';
import {
  breakLine,
  completionAt,
  type Edit,
  highlightProse,
  highlightYaml,
  indent,
  insertField,
  outdent,
} from './editor.ts';

/** `[` and `]` mark the selection. */
function after(edit: (text: string, from: number, to: number) => Edit, marked: string): string {
  const from = marked.indexOf('[');
  const to = marked.indexOf(']') - 1;
  const text = marked.replace(/[[\]]/g, '');
  const { from: start, to: stop, insert, selectFrom, selectTo } = edit(text, from, to);
  const next = `${text.slice(0, start)}${insert}${text.slice(stop)}`;
  return `${next.slice(0, selectFrom)}[${next.slice(selectFrom, selectTo)}]${next.slice(selectTo)}`;
}

test('Tab indents to the next step', () => {
  expect(after(indent, 'a:\n[]b')).toBe('a:\n  []b');
  expect(after(indent, 'a:\nb[]')).toBe('a:\nb []');
  expect(after(indent, 'a: [old]')).toBe('a:  []');
});

test('Tab indents the selected lines, and Shift+Tab outdents them', () => {
  expect(after(indent, 'a:\n[b\n\nc]\nd')).toBe('a:\n  [b\n\n  c]\nd');
  expect(after(outdent, 'a:\n  [b\n\n  c]\nd')).toBe('a:\n[b\n\nc]\nd');
  expect(after(outdent, ' b[]')).toBe('b[]');
  expect(after(outdent, '[]b')).toBe('[]b');
});

test('a new line keeps the indentation, and is deeper after a colon', () => {
  expect(after(breakLine, '  a: x[]')).toBe('  a: x\n  []');
  expect(after(breakLine, 'repos:[]\nb')).toBe('repos:\n  []\nb');
  expect(after(breakLine, 'a[xx]b')).toBe('a\n[]b');
});

const highlighted = (line: string) => highlightYaml(line).map(({ as, text }) => `${as}:${text}`);

test.each([
  ['model: opus # why', ['key:model', 'mark::', 'plain: opus', 'comment: # why']],
  ['  - url: https://x.org/a#b', ['mark:  - ', 'key:url', 'mark::', 'plain: https://x.org/a#b']],
  ['repos:', ['key:repos', 'mark::']],
  ['# a note', ['comment:# a note']],
  ['---', ['mark:---']],
  ['  - npm ci', ['plain:  - npm ci']],
  ['"a b": 1', ['key:"a b"', 'mark::', 'plain: 1']],
  ['', []],
])('%j is highlighted', (line, parts) => expect(highlighted(line)).toEqual(parts));

test('highlighting keeps every character', () => {
  for (const line of ['a: b', '  - x: y # z', 'http://x:80', 'a:b', ': x', '- - a: 1', '\'q\': "#" #c'])
    expect(
      highlightYaml(line)
        .map(({ text }) => text)
        .join(''),
    ).toBe(line);
  expect(highlightProse('# Title')).toEqual([{ as: 'heading', text: '# Title' }]);
});

/** `|` is the caret. */
function at(kind: Parameters<typeof completionAt>[0], marked: string) {
  const caret = marked.indexOf('|');
  return completionAt(kind, marked.replace('|', ''), caret);
}
const words = (...parameters: Parameters<typeof at>) => at(...parameters)?.choices.map(({ word }) => word);

describe('completion at the caret', () => {
  test('offers fields that start with the typed text and are not set yet', () => {
    expect(words('workspace', 'kind: workspace\np|')).toEqual([
      'pool',
      'policy',
      'persona',
      'projectSettings',
    ]);
    expect(words('workspace', 'pool: x\np|\n')).toEqual(['policy', 'persona', 'projectSettings']);
    expect(at('pool', 'kind: pool\nmaxR|')).toMatchObject({
      from: 11,
      choices: [
        { word: 'maxRuns', insert: 'maxRuns: ' },
        { word: 'maxRunsTotal', insert: 'maxRunsTotal: ' },
      ],
    });
    expect(at('workspace', 're|')?.choices[0]?.insert).toBe('repos:');
  });

  test('offers the fields of the surrounding object', () => {
    expect(words('workspace', 'repos:\n  - u|')).toEqual(['url']);
    expect(words('workspace', 'repos:\n- url: x\n  b|')).toEqual(['baseBranch']);
    expect(words('share-link', 'agentId:\n  tenant:\n    o|')).toEqual(['org']);
    expect(words('share-link', 'agentId:\n  tenant:\n    org: x\n  w|')).toEqual(['workspace']);
  });

  test('offers values of fields that allow only a few', () => {
    expect(words('token', 'role: m|')).toEqual(['member', 'metrics']);
    expect(words('token', 'rotate: |')).toEqual(['true', 'false']);
    expect(words('pool', 'vmProfile: d|')).toBeUndefined();
  });

  test('offers nothing in the middle of a line, after a complete word, in prose, or for unknown fields', () => {
    expect(words('pool', 'max|Runs: 1')).toBeUndefined();
    expect(words('pool', 'maxRuns|')).toBeUndefined();
    expect(words('pool', 'zebra|')).toBeUndefined();
    expect(words('environment', 'setup:\n  - n|')).toBeUndefined();
    expect(words('persona', '---\nname: p\n---\nmo|')).toBeUndefined();
    expect(words('persona', '---\nname: p\nmo|\n---\nText')).toEqual(['model']);
    expect(words('persona', '---\nin|\n---\n')).toBeUndefined();
  });
});

describe('a field inserted with its example', () => {
  const put = (kind: Parameters<typeof insertField>[0], text: string, name: string) => {
    const field = knownFields(kind).find((known) => known.name === name);
    if (!field) throw new Error(`there is no field ${name}`);
    const { at: place, text: added, selectFrom, selectTo } = insertField(kind, text, field);
    const whole = `${text.slice(0, place)}${added}${text.slice(place)}`;
    return [whole, whole.slice(selectFrom, selectTo)];
  };

  test('comes after the others, with its value selected', () => {
    expect(put('pool', 'kind: pool\n', 'maxRuns')).toEqual(['kind: pool\nmaxRuns: 4\n', '4']);
    expect(put('pool', 'kind: pool', 'maxRuns')).toEqual(['kind: pool\nmaxRuns: 4\n', '4']);
    expect(put('environment', '', 'setup')).toEqual(['setup:\n  - npm ci\n', 'setup:\n  - npm ci']);
  });

  test('is added to the front matter of a persona, or starts it', () => {
    expect(put('persona', '---\nname: p\n---\nText\n', 'fastMode')).toEqual([
      '---\nname: p\nfastMode: true\n---\nText\n',
      'true',
    ]);
    expect(put('persona', 'Text\n', 'fastMode')).toEqual(['---\nfastMode: true\n---\nText\n', 'true']);
    expect(put('persona', '---\nname: p\n---\n', 'instructions')[0]).toMatch(/^---\nname: p\n---\nYou are /);
  });

  test.each([
    'workspace',
    'persona',
    'environment',
    'vm-profile',
    'pool',
    'policy',
    'token',
    'share-link',
  ] as const)('every known field of %s has a meaning and an example', (kind) => {
    for (const { name, meaning, example } of knownFields(kind))
      expect([name, meaning !== '', example !== '']).toEqual([name, true, true]);
  });
});
