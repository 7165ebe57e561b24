/**
 * Generated blocks inside hand-written pages. A block starts with `<!-- generated: NAME -->` and ends with
 * `<!-- end -->`; everything between is replaced.
 */
const block = /<!-- generated: ([^>]+?) -->\n[\s\S]*?<!-- end -->/g;

/** The page with all blocks generated again. The page must have each block exactly once. */
export function withBlocks(page, title, generators) {
  const found = [...page.matchAll(block)].map(([, name]) => name);
  const unknown = found.filter((name, at) => !(name in generators) || found.indexOf(name) !== at);
  const missing = Object.keys(generators).filter((name) => !found.includes(name));
  if (unknown.length > 0) throw new Error(`${title} has unknown or repeated blocks: ${unknown.join(', ')}`);
  if (missing.length > 0)
    throw new Error(
      `${title} lacks "<!-- generated: NAME -->" with "<!-- end -->" for: ${missing.join(', ')}`,
    );
  return page.replace(
    block,
    (_, name) => `<!-- generated: ${name} -->\n\n${generators[name]}\n\n<!-- end -->`,
  );
}
