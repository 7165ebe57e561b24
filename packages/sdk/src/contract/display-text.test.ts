import { expect, test } from 'vitest';
import type { ChangeRequest } from './code-host.ts';
import {
  bytesText,
  changeRequestNotes,
  dollars,
  statusAge,
  statusText,
  thousands,
  unpushedText,
} from './display-text.ts';

test.each([
  [0, '–'],
  [0.0004, '<$0.001'],
  [0.00123, '$0.0012'],
  [0.042, '$0.042'],
  [0.04, '$0.04'],
  [0.0996, '$0.10'],
  [0.25, '$0.25'],
  [2.314, '$2.31'],
  [1234.5, '$1234.50'],
])('%d dollars are %s', (cost, text) => expect(dollars(cost)).toBe(text));

test.each([
  ['0', '0'],
  ['999', '999'],
  ['1000', '1k'],
  ['5200', '5.2k'],
  ['9960', '10k'],
  ['96400', '96k'],
  ['999499', '999k'],
  ['999500', '1M'],
  ['1400000', '1.4M'],
  ['31000000', '31M'],
])('%s tokens are %s', (count, text) => expect(thousands(count)).toBe(text));

test.each([
  [null, ''],
  [{ commits: 0, files: 0, isSaved: true }, ''],
  [{ commits: 1, files: 0, isSaved: true }, '1 commit'],
  [{ commits: 0, files: 1, isSaved: true }, '1 changed file'],
  [{ commits: 2, files: 3, isSaved: true }, '2 commits, 3 changed files'],
])('unpushed work of %o is "%s"', (unpushed, text) => expect(unpushedText(unpushed)).toBe(text));

test.each([
  [812, '812 B'],
  [5325, '5.2 KiB'],
  [1_048_100, '1 MiB'],
  [33_000_000, '31 MiB'],
])('%d bytes are %s', (bytes, text) => expect(bytesText(bytes)).toBe(text));

const now = Date.parse('2026-03-01T12:00:00Z');
const phaseSince = '2026-03-01T11:56:00Z';
const later = '2026-03-01T12:23:00Z';

test.each([
  ['QUESTION', null, /^needs input$/, 'for 4m'],
  ['RESTING', later, /^idle$/, 'for 4m'],
  ['FINISHED', null, /^finished$/, '4m ago'],
  ['PROVIDER_LIMIT', later, /^rate limited until \d\d:23$/, ''],
  ['PROVIDER_LIMIT', null, /^rate limited$/, 'for 4m'],
  ['DEFERRED', later, /^scheduled for \d\d:23$/, ''],
  ['RETRYING', later, /^retrying at \d\d:23$/, ''],
] as const)('the status of %s with wakesAt %s', (phaseReason, wakesAt, text, age) => {
  expect(statusText({ phaseReason, wakesAt }, now)).toMatch(text);
  expect(statusAge({ phaseReason, phaseSince, wakesAt }, now)).toBe(age);
});

test('a change request is its state, what is wrong with it, and what is open', () => {
  const request = {
    state: 'OPEN',
    paused: false,
    checks: { state: 'NONE', failing: [] },
    review: { state: 'NONE', openThreads: 0, resolvedThreads: 3 },
  } as unknown as ChangeRequest;
  expect(changeRequestNotes(request)).toBe('open');
  expect(
    changeRequestNotes({
      ...request,
      paused: true,
      checks: { state: 'FAILING', failing: ['test', 'lint'] },
      review: { state: 'CHANGES_REQUESTED', openThreads: 1, resolvedThreads: 0 },
    }),
  ).toBe('open, paused, checks failing: test, lint, changes requested, 1 open thread');
});
