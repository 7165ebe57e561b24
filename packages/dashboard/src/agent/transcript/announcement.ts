import { firstLine, type TimelineEntry } from '@muster/sdk/contract';
import { outcomeWords } from './entry-words.ts';

/** What somebody who only hears the page is told of by itself: not each step, but that it asks, failed or is done. */
export function announcementOf(entries: readonly TimelineEntry[]): string | undefined {
  return entries.map(wordsOf).findLast((words) => words !== undefined);
}

function wordsOf(entry: TimelineEntry): string | undefined {
  switch (entry.type) {
    case 'QUESTION':
      return `It asks: ${firstLine(entry.text)}`;
    case 'ERROR':
      return `Error: ${firstLine(entry.text)}`;
    case 'RUN_ENDED':
      return `Run ${entry.runId} ${outcomeWords(entry)}`;
    default:
      return undefined;
  }
}
