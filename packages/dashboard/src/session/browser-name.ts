const browsers: readonly (readonly [RegExp, string])[] = [
  [/Edg\//, 'Edge'],
  [/OPR\//, 'Opera'],
  [/Firefox\//, 'Firefox'],
  [/Chrome\//, 'Chrome'],
  [/Safari\//, 'Safari'],
];
const systems: readonly (readonly [RegExp, string])[] = [
  [/Android/, 'Android'],
  [/iPhone|iPad/, 'iOS'],
  [/Windows/, 'Windows'],
  [/Mac OS X/, 'macOS'],
  [/Linux/, 'Linux'],
];

/** `Firefox on Linux`. */
export function browserName(userAgent: string): string {
  const found = (names: typeof browsers) => names.find(([form]) => form.test(userAgent))?.[1];
  const system = found(systems);
  return `${found(browsers) ?? 'Unknown browser'}${system === undefined ? '' : ` on ${system}`}`;
}
