import type { LiveText, TimelineEntry } from '@muster/sdk';
import { liveRowKey, type Row, stringIn } from './rows.ts';

/** A call that is further up shows its output when it ends. */
const searchedRows = 200;

/** The rows with what the agent is producing: texts behind them, and the output of commands in the rows of their calls. */
export function withLiveTexts(rows: readonly Row[], texts: readonly LiveText[]): readonly Row[] {
  if (texts.length === 0) return rows;
  const all = [...rows];
  // A piece may arrive after its entry was read.
  const keys = new Set(rows.slice(-searchedRows).map(({ key }) => key));
  for (const text of texts) {
    if (text.type === 'TOOL_RESULT') addOutput(all, text);
    else if (!keys.has(liveRowKey(text.key))) all.push(rowOf(text, rows.at(-1)?.at ?? ''));
  }
  return all;
}

function addOutput(rows: Row[], { key, text, offset }: LiveText): void {
  const first = Math.max(0, rows.length - searchedRows);
  for (let index = rows.length - 1; index >= first; index -= 1) {
    const row = rows[index];
    if (row?.kind !== 'tool' || !row.call || stringIn(row.call.data, 'id') !== key) continue;
    if (row.results.length === 0) rows[index] = { ...row, liveOutput: whole(text, offset) };
    return;
  }
}

/** The row that the entry of this text will have. Its time is that of the entry before, so that it does not change. */
function rowOf({ key, type, runId, text, offset }: LiveText, at: string): Row {
  const entry: TimelineEntry = {
    sequence: '0',
    at,
    runId,
    type,
    followUpId: '',
    text: whole(text, offset),
    data: { key },
  };
  const kind = type === 'THINKING' ? 'thinking' : 'message';
  return { key: liveRowKey(key), sequence: 0, at, kind, entry };
}

const whole = (text: string, offset: number): string => (offset > 0 ? `…${text}` : text);
