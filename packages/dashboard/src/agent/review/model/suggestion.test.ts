import { expect, test } from 'vitest';
import { commentParts, suggestionOf } from './suggestion.ts';

test('a comment is split at its suggestions', () => {
  expect(commentParts('Better:\n```suggestion\nconst a = 1;\n\n```\nOr not.')).toEqual([
    { kind: 'text', text: 'Better:' },
    { kind: 'suggestion', lines: ['const a = 1;', ''] },
    { kind: 'text', text: 'Or not.' },
  ]);
  expect(commentParts('```js\na\n```')).toEqual([{ kind: 'text', text: '```js\na\n```' }]);
  expect(commentParts('```suggestion\n```')).toEqual([{ kind: 'suggestion', lines: [] }]);
  expect(commentParts('```suggestion\nopen')).toEqual([{ kind: 'suggestion', lines: ['open'] }]);
});

test('code with a fence is suggested in a longer one', () => {
  const code = '```sh\nnpm test\n```';
  expect(commentParts(suggestionOf(code))).toEqual([{ kind: 'suggestion', lines: code.split('\n') }]);
});
