import { describe, expect, test } from 'vitest';
import { payloadPath } from './field-path.ts';
import { readText, textOf } from './read-text.ts';

const lines = (...of: string[]) => `${of.join('\n')}\n`;
const seen = (...parameters: Parameters<typeof readText>) =>
  readText(...parameters).problems.map(({ line, message }) => `${line}: ${message}`);

describe('a resource as text', () => {
  test('comes back as it was written', () => {
    const document = { name: 'big', maxRuns: 3, vmProfile: 'default', updatedBy: 'x', note: 'kept' };
    const text = textOf('pool', 'big', document);
    expect(text).toBe(lines('kind: pool', 'name: big', 'maxRuns: 3', 'vmProfile: default', 'note: kept'));
    expect(readText('pool', 'big', text)).toMatchObject({
      fields: { maxRuns: 3, vmProfile: 'default', note: 'kept' },
      problems: [],
    });
  });

  test('is Markdown with settings in front for a persona', () => {
    const text = textOf('persona', 'p', { instructions: 'Be kind.\n\n---\n\nAlways.', model: 'm' });
    expect(text).toBe(lines('---', 'name: p', 'model: m', '---', 'Be kind.', '', '---', '', 'Always.'));
    const read = readText('persona', 'p', text);
    expect(read.fields).toEqual({ model: 'm', instructions: 'Be kind.\n\n---\n\nAlways.' });
    expect(read.lineOf(['instructions'])).toBe(5);
    expect(read.lineOf(['model'])).toBe(3);
  });

  test('may leave out kind and name, and everything else', () => {
    expect(readText('pool', 'x', '')).toMatchObject({ fields: {}, problems: [] });
    expect(readText('persona', 'x', 'Be kind.')).toMatchObject({ fields: { instructions: 'Be kind.' } });
  });

  test('calls a field of null absent, and keeps what it does not know', () => {
    expect(readText('pool', 'x', lines('maxRuns:', 'colour: red'))).toMatchObject({
      fields: { maxRuns: null, colour: 'red' },
      problems: [],
    });
  });
});

describe('what is wrong stands at its line', () => {
  test('a mistake in YAML', () => {
    expect(seen('pool', 'x', lines('kind: pool', 'repos: [a', 'maxRuns: 1'))[0]).toMatch(/^[23]: /);
    expect(seen('pool', 'x', lines('maxRuns: 1', '# more', 'maxRuns: 2'))).toEqual([
      '3: This field is there twice.',
    ]);
    expect(seen('pool', 'x', lines('# one', '- a', '- b'))).toEqual([
      '2: A document is a list of fields, each on its own line: name: value',
    ]);
  });

  test('what people often get wrong, in their words', () => {
    expect(seen('pool', 'x', lines('kind: pool', 'max'))).toEqual([
      '2: A field needs a colon behind its name, as in name: value',
    ]);
    expect(seen('pool', 'x', lines('a:', '\tb: 1'))[0]).toBe('2: Indent with spaces, not with tabs.');
    expect(seen('pool', 'x', lines('a: 1', '---', 'b: 2'))).toEqual([
      '2: A text is one resource: take out the line --- and what follows it.',
    ]);
  });

  test('a mistake in the settings of a persona, counted from the top of the text', () => {
    expect(seen('persona', 'p', lines('---', 'name: p', 'fastMode: soon', '---', 'Be kind.'))).toEqual([
      '3: fastMode must be a boolean',
    ]);
    expect(seen('persona', 'p', lines('---', 'name: p', 'Be kind.'))).toEqual([
      '1: The settings have no end: put a line --- behind them.',
    ]);
  });

  test('values of a wrong type, all at once and deep inside', () => {
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
    expect(seen('workspace', 'w', text)).toEqual([
      '5: repos[1] must be a URL, or an object with url, baseBranch and path',
      '6: repos[2] must be a URL, or an object with url, baseBranch and path',
      '8: model must be a string',
    ]);
    expect(seen('token', 't', lines('role: king', 'expiresAt: soon', 'account: a/b'))).toEqual([
      '1: role must be one of viewer, member, admin, operator, runner, agent, share',
      '2: expiresAt must be a date-time such as 2026-01-31T09:00:00Z (RFC 3339)',
      '3: account must be at most 256 characters without control characters, "/" or "*"',
    ]);
    expect(seen('environment', 'e', lines('variables:', '  A: x', '  B C/D: 4', 'setup: npm ci'))).toEqual([
      '3: variables.B C/D must be a string, or {"fromRunner": "NAME"} to take it from the runner',
      '4: setup must be an array',
    ]);
    expect(seen('pool', 'p', 'maxRuns: -1')).toEqual(['1: maxRuns must be at least 0']);
    expect(seen('persona', 'p', `---\nmodel: ${'x'.repeat(300)}\n---\n`)).toEqual([
      '2: model must have at most 256 characters',
    ]);
  });

  test('another kind or name', () => {
    expect(seen('pool', 'x', lines('kind: workspace', 'name: y'))).toEqual([
      '1: The kind stays pool. Another kind is another resource.',
      '2: The name stays x. Another name is another resource.',
    ]);
    expect(seen('pool', 'x', 'kind: Pools')).toEqual([]);
  });

  test('references that unfold without end', () => {
    const bomb = ['a: &a [x, x, x, x, x, x, x, x, x, x]'];
    for (const [to, from] of ['ba', 'cb', 'dc']) bomb.push(`${to}: &${to} [${`*${from}, `.repeat(10)}]`);
    expect(seen('pool', 'x', lines(...bomb))).toEqual([
      '1: Its references (* and &) lead to more than can be stored.',
    ]);
  });

  test('a field that the service names, or what it stands in', () => {
    const { lineOf } = readText('workspace', 'w', lines('repos:', '  - a', '  - b', 'model: m'));
    expect(lineOf(payloadPath('payload.repos[1]') ?? [])).toBe(3);
    expect(lineOf(payloadPath('payload.repos[1].url') ?? [])).toBe(3);
    expect(lineOf(payloadPath('payload.nowhere') ?? [])).toBe(1);
    expect(payloadPath('justification')).toBeUndefined();
    expect(payloadPath('payload')).toEqual([]);
  });
});
