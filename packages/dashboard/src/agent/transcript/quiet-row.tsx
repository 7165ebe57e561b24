import { EntryTime } from './entry-time.tsx';
import { quietWords } from './entry-words.ts';
import { Fold } from './fold.tsx';
import type { RowOf } from './rows.ts';
import './quiet-row.css';

const namedWords = 4;
const mostLines = 500;

/** What the machine says of itself: one line, however much it was. */
export function QuietRow({ row }: { readonly row: RowOf<'quiet'> }) {
  const { entries, key } = row;
  const [only] = entries;
  if (only && entries.length === 1) return <p className="quiet-row quiet-line">{quietWords(only)}</p>;
  return (
    <div className="quiet-row">
      <Fold
        name={key}
        head={<span className="fold-line">{gathered(entries.map((entry) => quietWords(entry, true)))}</span>}
      >
        {() => (
          <ol className="quiet-list">
            {entries.slice(-mostLines).map((entry) => (
              <li key={entry.sequence}>
                <EntryTime at={entry.at} sequence={entry.sequence} /> {quietWords(entry)}
              </li>
            ))}
          </ol>
        )}
      </Fold>
    </div>
  );
}

/** The newest matter most. */
function gathered(words: readonly string[]): string {
  if (words.length <= namedWords) return words.join(' · ');
  return `${words.length - namedWords} more · ${words.slice(-namedWords).join(' · ')}`;
}
