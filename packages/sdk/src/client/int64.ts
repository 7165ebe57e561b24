/**
 * 64-bit values (`runId`, `runCount`, `sequence`, `generation`, token counts) are strings on the wire and stay strings
 * here: a number would lose digits past 2^53, and a bigint can't be put into JSON. Pass them on as they are; compare
 * them with this. For arithmetic that needs all 64 bits, `BigInt(value)` reads them.
 */
export type Int64 = string;

/** A 64-bit value in a request: a string, or a safe integer. */
export type Int64Input = string | number;

const pattern = /^(-?)0*(\d{1,19})$/;

function partsOf(value: Int64Input): { readonly sign: 1 | -1; readonly digits: string } {
  const text = typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : value;
  const match = typeof text === 'string' ? pattern.exec(text) : null;
  if (!match) throw new TypeError(`not a 64-bit integer: ${String(value)}`);
  const digits = match[2] ?? '';
  return { sign: match[1] === '-' && digits !== '0' ? -1 : 1, digits };
}

/** Below, at or above zero as a is smaller than, equal to or larger than b; for `sort` as well. */
export function compareInt64(a: Int64Input, b: Int64Input): number {
  const one = partsOf(a);
  const other = partsOf(b);
  if (one.sign !== other.sign) return one.sign;
  if (one.digits === other.digits) return 0;
  const isLarger =
    one.digits.length === other.digits.length
      ? one.digits > other.digits
      : one.digits.length > other.digits.length;
  return isLarger ? one.sign : -one.sign;
}
