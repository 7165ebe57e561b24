import { describe, expect, test } from 'vitest';
import { payloadPath, readText, textOf } from './document-text.ts';

const lines = (...of: string[]) => `${of.join('\n')}\n`;
const problemsOf = (...parameters: Parameters<typeof readText>) =>
  readText(...parameters).problems.map(({ line, message }) => `${line}: ${message}`);

describe('a resource as text', () => {
  test('is parsed to the same document', () => {
    const document = { name: 'big', maxRuns: 3, vmProfile: 'default', updatedBy: 'x', note: 'kept' };
    const text = textOf('pool', 'big', document);
    expect(text).toBe(lines('kind: pool', 'name: big', 'maxRuns: 3', 'vmProfile: default', 'note: kept'));
    expect(readText('pool', 'big', text)).toMatchObject({
      fields: { maxRuns: 3, vmProfile: 'default', note: 'kept' },
      problems: [],
    });
  });

  test('is Markdown with front matter for a persona', () => {
    const text = textOf('persona', 'p', { instructions: 'Be kind.\n\n---\n\nAlways.', model: 'm' });
    expect(text).toBe(lines('---', 'name: p', 'model: m', '---', 'Be kind.', '', '---', '', 'Always.'));
    const read = readText('persona', 'p', text);
    expect(read.fields).toEqual({ model: 'm', instructions: 'Be kind.\n\n---\n\nAlways.' });
    expect(read.lineOf(['instructions'])).toBe(5);
    expect(read.lineOf(['model'])).toBe(3);
  });

  test('may omit kind, name and all fields', () => {
    expect(readText('pool', 'x', '')).toMatchObject({ fields: {}, problems: [] });
    expect(readText('persona', 'x', 'Be kind.')).toMatchObject({ fields: { instructions: 'Be kind.' } });
  });

  test('treats null fields as absent and keeps unknown fields', () => {
    expect(readText('pool', 'x', lines('maxRuns:', 'colour: red'))).toMatchObject({
      fields: { maxRuns: null, colour: 'red' },
      problems: [],
    });
  });
});

describe('problems have the line of', () => {
  test('a YAML error', () => {
    expect(problemsOf('pool', 'x', lines('kind: pool', 'repos: [a', 'maxRuns: 1'))[0]).toBe(
      '2: This list has no closing ].',
    );
    expect(problemsOf('pool', 'x', lines('maxRuns: 1', '# more', 'maxRuns: 2'))).toEqual([
      '3: Duplicate field.',
    ]);
    expect(problemsOf('pool', 'x', lines('# one', '- a', '- b'))).toEqual([
      '2: Expected fields, each on its own line: name: value',
    ]);
  });

  test('frequent mistakes, with own texts', () => {
    expect(problemsOf('pool', 'x', lines('kind: pool', 'max'))).toEqual([
      '2: Expected a colon and a space after the field name, as in name: value',
    ]);
    expect(problemsOf('pool', 'x', lines('a:', '\tb: 1'))[0]).toBe('2: Indent with spaces, not tabs.');
    expect(problemsOf('pool', 'x', lines('a: 1', '---', 'b: 2'))).toEqual([
      '2: Only one document is allowed. Remove the line --- and everything after it.',
    ]);
  });

  test('an invalid setting of a persona, counted from the top of the text', () => {
    expect(problemsOf('persona', 'p', lines('---', 'name: p', 'fastMode: soon', '---', 'Be kind.'))).toEqual([
      '3: fastMode must be a boolean',
    ]);
    expect(problemsOf('persona', 'p', lines('---', 'name: p', 'Be kind.'))).toEqual([
      '1: The settings are not closed. Add a line with --- after them.',
    ]);
  });

  test('all values of a wrong type, at any depth', () => {
    const text = lines(
      'kind: workspace',
      'name: w',
      'repos:',
      '  - https://example.com/a.git',
      '  - 3',
      '  - url: https://example.com/b.git',
      '    baseBranch: 4',
      'model: [x]',
    );
    expect(problemsOf('workspace', 'w', text)).toEqual([
      '5: repos[1] must be a URL, or an object with url, baseBranch and path',
      '6: repos[2] must be a URL, or an object with url, baseBranch and path',
      '8: model must be a string',
    ]);
    expect(problemsOf('token', 't', lines('role: king', 'expiresAt: soon', 'account: a/b'))).toEqual([
      '1: role must be one of viewer, member, admin, operator, runner, metrics, agent, share',
      '2: expiresAt must be a date-time such as 2026-01-31T09:00:00Z (RFC 3339)',
      '3: account must be at most 256 characters without control characters, "/" or "*"',
    ]);
    expect(
      problemsOf('environment', 'e', lines('variables:', '  A: x', '  B C/D: 4', 'setup: npm ci')),
    ).toEqual([
      '3: variables.B C/D must be a string, {"fromSecret": "NAME"} to take it from a secret, or {"fromRunner": "NAME"} to take it from the runner',
      '4: setup must be an array',
    ]);
    expect(problemsOf('pool', 'p', 'maxRuns: -1')).toEqual(['1: maxRuns must be at least 0']);
    expect(problemsOf('persona', 'p', `---\nmodel: ${'x'.repeat(300)}\n---\n`)).toEqual([
      '2: model must have at most 256 characters',
    ]);
  });

  test('a changed kind or name', () => {
    expect(problemsOf('pool', 'x', lines('kind: workspace', 'name: y'))).toEqual([
      "1: The kind can't be changed from pool. Create a new resource.",
      "2: The name can't be changed from x. Create a new resource.",
    ]);
    expect(problemsOf('pool', 'x', 'kind: Pools')).toEqual([]);
  });

  test('aliases that expand too far', () => {
    const bomb = ['a: &a [x, x, x, x, x, x, x, x, x, x]'];
    for (const [to, from] of ['ba', 'cb', 'dc']) bomb.push(`${to}: &${to} [${`*${from}, `.repeat(10)}]`);
    expect(problemsOf('pool', 'x', lines(...bomb))).toEqual([
      '1: The aliases (* and &) expand to more than can be stored.',
    ]);
  });

  test('a field that the service reports, or the value that contains it', () => {
    const { lineOf } = readText('workspace', 'w', lines('repos:', '  - a', '  - b', 'model: m'));
    expect(lineOf(payloadPath('payload.repos[1]') ?? [])).toBe(3);
    expect(lineOf(payloadPath('payload.repos[1].url') ?? [])).toBe(3);
    expect(lineOf(payloadPath('payload.nowhere') ?? [])).toBe(1);
    expect(payloadPath('justification')).toBeUndefined();
    expect(payloadPath('payload')).toEqual([]);
  });
});
