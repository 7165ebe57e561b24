/**
 * Parts of a page that are made, in the middle of prose that is written by hand. A block begins with
 * `<!-- made: NAME -->` and ends with `<!-- end -->`; what is between them is replaced.
 */
const block = /<!-- made: ([^>]+?) -->\n[\s\S]*?<!-- end -->/g;

/** The page with every block made anew. Each name must be there once, and each block must have a maker. */
export function withBlocks(page, title, makers) {
  const found = [...page.matchAll(block)].map(([, name]) => name);
  const unknown = found.filter((name, at) => !(name in makers) || found.indexOf(name) !== at);
  const missing = Object.keys(makers).filter((name) => !found.includes(name));
  if (unknown.length > 0) throw new Error(`${title} has blocks that nobody makes: ${unknown.join(', ')}`);
  if (missing.length > 0)
    throw new Error(`${title} lacks "<!-- made: NAME -->" with "<!-- end -->" for: ${missing.join(', ')}`);
  return page.replace(block, (_, name) => `<!-- made: ${name} -->\n\n${makers[name]}\n\n<!-- end -->`);
}
