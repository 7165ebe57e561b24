/**
 * Compares a pattern with a URL or a path segment by segment. `*` matches any characters within a segment, `**` as the last
 * segment matches one or more segments. The time is linear per `*`.
 */
export function matchesPath(pattern: string, path: string): boolean {
  const wanted = pattern.split('/');
  const parts = path.split('/');
  const isOpen = wanted.at(-1) === '**';
  if (isOpen) wanted.pop();
  if (isOpen ? parts.length <= wanted.length : parts.length !== wanted.length) return false;
  return wanted.every((part, i) => matchesPart(part, parts[i] ?? ''));
}

function matchesPart(pattern: string, text: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  const last = rest.pop();
  if (last === undefined) return text === pattern;
  if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last))
    return false;
  let at = first.length;
  const end = text.length - last.length;
  for (const piece of rest) {
    const found = text.indexOf(piece, at);
    if (found < 0 || found + piece.length > end) return false;
    at = found + piece.length;
  }
  return true;
}
