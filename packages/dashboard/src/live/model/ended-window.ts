/** How far back ended agents are listed; live agents always are. */
export const endedWindows = ['7d', '30d', 'all'] as const;
export type EndedWindow = (typeof endedWindows)[number];

const days: Readonly<Record<EndedWindow, number | null>> = { '7d': 7, '30d': 30, all: null };

/** The earliest end time that is listed; undefined for all. */
export function endedSinceOf(window: EndedWindow, nowMs = Date.now()): string | undefined {
  const count = days[window];
  return count === null ? undefined : new Date(nowMs - count * 86_400_000).toISOString();
}
