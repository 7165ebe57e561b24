import type { ReplyOf } from '../contract/routes.ts';
import type { TimelineEntry } from '../contract/timeline.ts';

/** Behind every sequence there can be. */
const endOfTime = '9223372036854775807';

/** The newest entries, oldest of them first, on as many pages as they need. */
export async function newestEntries(
  most: number,
  read: (before: string, limit: number) => Promise<ReplyOf<'timeline'>>,
): Promise<TimelineEntry[]> {
  let newest: TimelineEntry[] = [];
  let before = endOfTime;
  for (;;) {
    const { entries, more } = await read(before, most - newest.length);
    newest = [...entries, ...newest];
    const first = entries[0];
    if (first === undefined || !more || newest.length >= most) return newest;
    before = first.sequence;
  }
}
