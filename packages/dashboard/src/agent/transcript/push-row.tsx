import { Fold } from './fold.tsx';
import { LongText } from './long-text.tsx';
import { type RowOf, stringIn } from './rows.ts';
import './push-row.css';

/** What the agent pushed: its branch, the commits and the files in them. */
export function PushRow({ row: { key, entry } }: { readonly row: RowOf<'push'> }) {
  const commits = textsIn(entry.data.commits);
  const files = textsIn(entry.data.files);
  const repo = stringIn(entry.data, 'repo');
  return (
    <div className="push-row">
      <Fold
        name={key}
        head={
          <>
            <span className="push-mark" aria-hidden="true">
              ↑
            </span>
            <span className="fold-line">
              <strong>Pushed</strong> <code>{entry.text}</code>
              {` · ${counted(commits.length, 'commit')}, ${counted(files.length, 'file')}`}
            </span>
          </>
        }
      >
        {() => (
          <>
            {repo !== '' && <p>To {repo}</p>}
            {commits.length > 0 && (
              <LongText name={`${key} commits`} text={commits.join('\n')} isDiff={false} />
            )}
            {files.length > 0 && <LongText name={`${key} files`} text={files.join('\n')} isDiff={false} />}
          </>
        )}
      </Fold>
    </div>
  );
}

const textsIn = (value: unknown): readonly string[] => (Array.isArray(value) ? value.map(String) : []);
const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;
