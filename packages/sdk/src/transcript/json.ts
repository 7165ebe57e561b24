import type { TranscriptWriter } from './transcript-writer.ts';

/** One JSON object, with one entry per line. */
export const jsonWriter: TranscriptWriter = {
  start: (exportedAt) => `{"exportedAt":${JSON.stringify(exportedAt)},"agents":[`,
  agentStart: (status, isFirst) => `${isFirst ? '' : ','}\n{"status":${JSON.stringify(status)},"entries":[`,
  entry: (entry, isFirst) => `${isFirst ? '' : ','}\n${JSON.stringify(entry)}`,
  agentEnd: '\n]}',
  end: '\n]}\n',
};
