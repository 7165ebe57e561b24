/**
 * Whether a path fits a pattern of `*`, `**`, `?` and plain names; undefined for a pattern with more in it, which is
 * left to the service. A leading dot is a letter like any other, as it is there.
 */
export function matchesGlob(pattern: string, path: string): boolean | undefined {
  if (/[\\[\]{}()!+@|]/.test(pattern)) return undefined;
  return fits(pattern.split('/'), path.split('/'));
}

function fits(patterns: readonly string[], names: readonly string[]): boolean {
  const [first, ...rest] = patterns;
  if (first === undefined) return names.length === 0;
  if (first === '**') {
    // Behind a last one there must be something: it stands for what is in a folder.
    if (rest.length === 0) return names.length > 0;
    return names.some((_, at) => fits(rest, names.slice(at)));
  }
  const [name, ...others] = names;
  return name !== undefined && nameFits(first, name) && fits(rest, others);
}

function nameFits(pattern: string, name: string): boolean {
  const words = pattern.replace(/[.^$]/g, '\\$&').replace(/\*+/g, '.*').replaceAll('?', '.');
  return new RegExp(`^${words}$`, 's').test(name) && (name !== '' || pattern === '');
}
