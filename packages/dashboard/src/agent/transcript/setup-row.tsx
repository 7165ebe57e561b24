import { Fold } from './fold.tsx';
import { LongText } from './long-text.tsx';
import { type RowOf, stringIn } from './rows.ts';
import { terminalText } from './terminal-text.ts';
import { lineCount } from './tool-words.ts';
import './tool-row.css';

/** One command that prepared the workspace, and what it printed. */
export function SetupRow({ row: { key, entries } }: { readonly row: RowOf<'setup'> }) {
  const command = stringIn(entries[0]?.data ?? {}, 'command');
  const printed = entries.map(({ text }) => text).join('');
  const output =
    command !== '' && printed.startsWith(`$ ${command}\n`) ? printed.slice(command.length + 3) : printed;
  const text = terminalText(output).trimEnd();
  return (
    <div className="tool-row">
      <Fold
        name={key}
        head={
          <>
            <span className="tool-name">Set-up</span>
            <span className="fold-line tool-summary">{command}</span>
            <span className="tool-outcome">{linesWords(lineCount(text))}</span>
          </>
        }
      >
        {() => (text === '' ? <p>It printed nothing.</p> : <LongText name={key} text={text} />)}
      </Fold>
    </div>
  );
}

export const linesWords = (count: number): string =>
  `${count.toLocaleString('en')} line${count === 1 ? '' : 's'}`;
