/** Deeper documents are written on one line: with indentation their length would grow with the square of the depth. */
const maxDepth = 100;

/** A value as indented JSON, whatever an agent made of it. */
export function jsonText(value: unknown): string {
  try {
    const flat = JSON.stringify(value) ?? '';
    return depthOf(flat) > maxDepth ? flat : (JSON.stringify(value, null, 2) ?? '');
  } catch {
    return String(value);
  }
}

/** By its brackets; those in strings count too, which makes it at most too deep. */
function depthOf(json: string): number {
  let depth = 0;
  let deepest = 0;
  for (const one of json) {
    if (one === '[' || one === '{') deepest = Math.max(deepest, ++depth);
    else if (one === ']' || one === '}') depth--;
  }
  return deepest;
}
