import { plainWords } from './entry-words.ts';
import { Words } from './person-row.tsx';
import { type RowOf, stringIn } from './rows.ts';
import './voice-row.css';

type Notice = RowOf<'question'> | RowOf<'warning'> | RowOf<'error'> | RowOf<'abandoned'> | RowOf<'unknown'>;

const titles: Readonly<Record<Notice['kind'], string>> = {
  question: 'It asks',
  warning: 'Warning',
  error: 'Error',
  abandoned: 'Given up',
  unknown: 'Something else',
};

const voices: Readonly<Record<Notice['kind'], string>> = {
  question: 'question',
  warning: 'warning',
  error: 'error',
  abandoned: 'note',
  unknown: 'note',
};

/** What somebody should not miss. */
export function NoticeRow({ row }: { readonly row: Notice }) {
  const { kind, key, entry } = row;
  const code = kind === 'error' ? stringIn(entry.data, 'code') : '';
  return (
    <div className="voice-row" data-voice={voices[kind]}>
      <p className="voice-title">
        {titles[kind]} {code !== '' && <code>{code}</code>}
      </p>
      <Words name={key} text={wordsOf(row)} />
    </div>
  );
}

function wordsOf({ kind, entry }: Notice): string {
  if (kind === 'abandoned') return abandoned(entry.data.followUpIds);
  return kind === 'unknown' ? plainWords(entry) : entry.text || 'No reason was given.';
}

function abandoned(followUpIds: unknown): string {
  const count = Array.isArray(followUpIds) ? followUpIds.length : 0;
  const what = count === 0 ? 'What it was about to try again' : `${count} message${count === 1 ? '' : 's'}`;
  return `${what} will not be tried again: a newer message took the place.`;
}
