import { CommandError, exitCodes } from './exit-codes.ts';

const units: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** `90s`, `10m`, `2h`, `1h30m`, `3d` in milliseconds. */
export function durationMs(text: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)\s*([smhdw])[a-z]*/gi)];
  const rest = text.replace(/(\d+(?:\.\d+)?)\s*([smhdw])[a-z]*/gi, '').trim();
  if (parts.length === 0 || rest !== '')
    throw new CommandError(`"${text}" is no length of time; try 90s, 10m, 2h or 3d`, exitCodes.usage);
  return parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * (units[unit?.toLowerCase() ?? ''] ?? 0),
    0,
  );
}

/** When a message is to be delivered, from what a person would say. */
export async function deliveryTime(
  flags: { readonly at?: string; readonly in?: string },
  now = new Date(),
): Promise<string | undefined> {
  if (flags.at !== undefined && flags.in !== undefined)
    throw new CommandError('give --at or --in, not both', exitCodes.usage);
  if (flags.in !== undefined) return new Date(now.getTime() + durationMs(flags.in)).toISOString();
  if (flags.at === undefined) return undefined;
  const { parseDate } = await import('chrono-node');
  const found = parseDate(flags.at, now, { forwardDate: true });
  if (!found)
    throw new CommandError(
      `"${flags.at}" is no time; try "tomorrow 9:00" or 2026-12-24T18:00`,
      exitCodes.usage,
    );
  return found.toISOString();
}
