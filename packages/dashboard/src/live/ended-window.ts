/** How far back the page looks for agents that have ended; those that live are always there. */
export const endedWindows = ['7d', '30d', 'all'] as const;
export type EndedWindow = (typeof endedWindows)[number];

export const endedWindowWords: Readonly<Record<EndedWindow, string>> = {
  '7d': 'the last 7 days',
  '30d': 'the last 30 days',
  all: 'all time',
};

const days: Readonly<Record<EndedWindow, number | null>> = { '7d': 7, '30d': 30, all: null };

/** The earliest end that is shown; undefined when every one is. */
export function endedSinceOf(window: EndedWindow, nowMs = Date.now()): string | undefined {
  const count = days[window];
  return count === null ? undefined : new Date(nowMs - count * 86_400_000).toISOString();
}
