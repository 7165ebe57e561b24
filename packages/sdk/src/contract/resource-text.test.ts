import { describe, expect, test } from 'vitest';
import { resourceText, splitFrontMatter, writtenFields } from './resource-text.ts';

describe('the settings in front of a text', () => {
  test.each([
    ['settings and body', '---\nmodel: x\n---\nBe kind.\n', 'model: x\n', 'Be kind.\n'],
    ['no settings between the marks', '---\n---\nBe kind.\n', '', 'Be kind.\n'],
    ['no body behind them', '---\nmodel: x\n---', 'model: x\n', ''],
    ['lines that end as on Windows', '---\r\nmodel: x\r\n---\r\nBe kind.', 'model: x\r\n', 'Be kind.'],
    [
      'a rule in the body',
      '---\nmodel: x\n---\nOne.\n\n---\n\nTwo.\n',
      'model: x\n',
      'One.\n\n---\n\nTwo.\n',
    ],
    [
      'a value that only begins with dashes',
      '---\nname: a\nx: |\n  ---\n---\nB',
      'name: a\nx: |\n  ---\n',
      'B',
    ],
  ])('are told apart: %s', (_, text, settings, body) => {
    expect(splitFrontMatter(text)).toEqual({ settings, body, linesAbove: 1 });
  });

  test.each(['Be kind.\n', '', '---\nmodel: x\nwithout an end\n', '----\nmodel: x\n---\n'])(
    'are none in %j',
    (text) => expect(splitFrontMatter(text)).toEqual({ settings: '', body: text, linesAbove: 0 }),
  );
});

test('what the service sets is no part of the text', () => {
  const document = { name: 'x', role: 'viewer', createdAt: 'then', updatedBy: 'somebody', keyId: 'abc' };
  expect(writtenFields('token', document)).toEqual({ role: 'viewer' });
  const text = '{"kind":"token","name":"x","role":"viewer"}';
  expect(resourceText('token', 'x', document, JSON.stringify)).toBe(text);
});

test('a persona is Markdown with its settings in front', () => {
  const toYaml = (fields: object) => `${JSON.stringify(fields)}\n`;
  const document = { model: 'm', instructions: '\nBe kind.\n\n' };
  expect(resourceText('persona', 'x', document, toYaml)).toBe(
    '---\n{"name":"x","model":"m"}\n---\nBe kind.\n',
  );
});
