import { matchesPattern, type TriggerDocument } from '@muster/sdk/contract';
import { oneLine } from '../lib/quoting/quote.ts';
import { parsePath, type RequestValues, textAt } from '../lib/request-template.ts';

/** Why a request does not match all of them; null if it does. */
export function mismatch(filters: TriggerDocument['filter'], request: RequestValues): string | null {
  for (const [at, { path = '', equals, in: several, glob }] of (filters ?? []).entries()) {
    const value = textAt(request, parsePath(path));
    const isMatch =
      equals !== undefined
        ? value === String(equals)
        : several !== undefined
          ? several.some((one) => value === String(one))
          : matchesPattern(glob ?? '', value);
    if (!isMatch) return `filter[${at}]: ${path} is "${oneLine(value, 100)}"`;
  }
  return null;
}
