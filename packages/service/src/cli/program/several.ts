/** For an option that may be repeated: what was given, in order. */
export const several = (value: string, before: readonly string[] = []): string[] => [...before, value];
