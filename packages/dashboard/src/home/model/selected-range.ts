import type { Section } from './arrange.ts';

/** The pages from one row to another, in the order of the list, whichever is first; null if one is not listed. */
export function rangeBetween(
  sections: readonly Section[],
  from: string | null,
  to: string,
): readonly string[] | null {
  const pages = sections.flatMap((section) => section.pages);
  const [a, b] = [pages.indexOf(from ?? ''), pages.indexOf(to)];
  return a < 0 || b < 0 ? null : pages.slice(Math.min(a, b), Math.max(a, b) + 1);
}
