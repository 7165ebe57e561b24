/** A longer query says no more. */
export const maxQueryLength = 80;
const maxTextLength = 300;
const maxWords = 6;

const isWordStart = (text: string, at: number): boolean =>
  at === 0 || /[^\p{L}\p{N}]/u.test(text[at - 1] ?? '');

/** Letters that are further apart are not what was meant. */
const maxSpread = 4;

/**
 * How well the letters of a word occur in this order in a text; 0 if they do not. Letters beside each other and at the
 * start of a word count more. The text is read twice: to the end of the first match, and back to where that begins last.
 */
function lettersScore(word: string, text: string): number {
  let found = 0;
  let end = 0;
  for (; end < text.length && found < word.length; end += 1) if (text[end] === word[found]) found += 1;
  if (found < word.length) return 0;
  let score = 0;
  let before = end;
  for (let at = end - 1; found > 0; at -= 1) {
    if (text[at] !== word[found - 1]) continue;
    found -= 1;
    score += 1 + (before === at + 1 ? 1 : 0) + (isWordStart(text, at) ? 2 : 0);
    before = at;
  }
  return end - before > maxSpread * word.length ? 0 : score / word.length;
}

/** What is written as it is counts most in the title, and there at the start of a word. */
function wordScore(word: string, { title, more }: Searchable): number {
  const place = title.indexOf(word);
  if (place !== -1) return isWordStart(title, place) ? 100 - Math.min(place, 40) : 50;
  return more.includes(word) ? 20 : lettersScore(word, title);
}

/** In lower case. */
export interface Searchable {
  readonly title: string;
  /** Is searched only as it is written. */
  readonly more: string;
}

export const searchable = (title: string, more = ''): Searchable => ({
  title: title.slice(0, maxTextLength).toLowerCase(),
  more: more.slice(0, maxTextLength).toLowerCase(),
});

export const queryWords = (query: string): readonly string[] =>
  query.slice(0, maxQueryLength).toLowerCase().split(/\s+/).filter(Boolean).slice(0, maxWords);

/** The sum over all words; 0 if one of them does not occur. */
export function scoreOf(words: readonly string[], text: Searchable): number {
  let sum = 0;
  for (const word of words) {
    const score = wordScore(word, text);
    if (score === 0) return 0;
    sum += score;
  }
  // Of two titles with the same words, the shorter one is meant.
  return sum + Math.max(0, 10 - text.title.length / 10);
}

export interface Ranked<Item> {
  readonly items: readonly Item[];
  readonly total: number;
}

/** The best matches; without a query the first items. */
export function rank<Item extends { readonly text: Searchable }>(
  items: Iterable<Item>,
  query: string,
  most: number,
): Ranked<Item> {
  const words = queryWords(query);
  const scored: { readonly item: Item; readonly score: number }[] = [];
  for (const item of items) {
    const score = words.length === 0 ? 1 : scoreOf(words, item.text);
    if (score > 0) scored.push({ item, score });
  }
  // The sort is stable: equal ones keep their order.
  scored.sort((a, b) => b.score - a.score);
  return { items: scored.slice(0, most).map(({ item }) => item), total: scored.length };
}
