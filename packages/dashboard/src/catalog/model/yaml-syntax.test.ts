import { describe, expect, it } from 'vitest';
import { readText } from './document-text.ts';

const problems = (...lines: string[]) =>
  readText('workspace', 'w', `${lines.join('\n')}\n`).problems.map(
    ({ line, message }) => `${line} ${message}`,
  );

describe('syntax errors', () => {
  it.each<[string[], string]>([
    [['pool: a', 'repos: [1, 2', 'model: x'], '2 This list has no closing ].'],
    [['repos: [1,', '  2'], '1 This list has no closing ].'],
    [['x-a: {b: 1', 'model: x'], '1 This object has no closing }.'],
    [['pool: "a', 'model: x'], '1 This text has no closing ".'],
    [["pool: 'a"], "1 This text has no closing '."],
    [['pool: a: b'], '1 A value can’t contain a colon and a space. Put it in quotes.'],
    [['pool: a', '   model: x'], '2 This line is indented too far.'],
    [['pool', 'model: x'], '1 Expected a colon and a space after the field name, as in name: value'],
    [['pool:a', 'model: x'], '1 Expected a colon and a space after the field name, as in name: value'],
    [['x-a:', '\t- x'], '2 Indent with spaces, not tabs.'],
    [['pool: a', 'pool: b'], '2 Duplicate field.'],
    [['pool: @a'], '1 A value can’t begin with @. Put it in quotes.'],
    [['x-a: ]'], '1 This ] closes nothing.'],
    [['pool: |x', '  a'], '1 Nothing may follow | or > in its line.'],
    [
      ['pool: "\\q"'],
      '1 Unknown escape in a text with double quotes. Write \\\\ for a backslash, or use single quotes.',
    ],
    [
      ['repos:', '  - url: x', '   baseBranch: y'],
      '3 Expected - before an entry of the list, or less indentation.',
    ],
    [
      ['pool: a', '---', 'pool: b'],
      '2 Only one document is allowed. Remove the line --- and everything after it.',
    ],
    [['pool: *a'], '1 An alias (*) has no anchor (&) of its name.'],
  ])('of %j: %s', (lines, problem) => {
    expect(problems(...lines)).toEqual([problem]);
  });

  it('do not hide errors elsewhere', () => {
    expect(problems('repos: [1, 2', 'model: 5', 'pool: "a" b', 'persona: [x]')).toEqual([
      '1 This list has no closing ].',
      expect.stringMatching(/^2 model must be a string/),
      expect.stringMatching(/^3 /),
      expect.stringMatching(/^4 persona must be a string/),
    ]);
  });

  it('are found in a text of nothing but errors', () => {
    expect(problems(...Array.from({ length: 50 }, () => 'a: b: c')).length).toBeLessThan(10);
  });
});
