import { expect, test } from 'vitest';
import { choicesIn, choiceWords, isChosen, noChoices } from './last-choices.ts';

test.each([null, '', '{', 'null', '[]', '"x"', '7', '{"workspace": 7, "model": null}'])(
  'whatever the storage holds (%j), the form opens',
  (stored) => expect(choicesIn(stored)).toEqual(noChoices),
);

test('what was chosen is known again, and told in words', () => {
  const choices = choicesIn('{"workspace":"web","model":"opus","description":"secret"}');
  expect(choices).toEqual({ ...noChoices, workspace: 'web', model: 'opus' });
  expect(isChosen(choices)).toBe(true);
  expect(choiceWords(choices)).toBe('workspace web, model opus');
  expect(isChosen(noChoices)).toBe(false);
});
