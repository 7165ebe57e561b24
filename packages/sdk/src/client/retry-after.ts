/** The header `Retry-After`, in seconds or as a date, as milliseconds from now. */
export function retryAfterMs(header: string | null, nowMs: number = Date.now()): number | undefined {
  const text = header?.trim() ?? '';
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000;
  const date = text === '' ? Number.NaN : Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - nowMs);
}
