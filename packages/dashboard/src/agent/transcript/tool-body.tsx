import { useEffect, useState } from 'react';
import { jsonText } from '../../parts/model/text.ts';
import { diffOfChanges, diffOfEdits, type Edit, editsOf } from './edits.ts';
import { LongText } from './long-text.tsx';
import { type RowOf, stringIn } from './rows.ts';
import { type Fields, inputOf, resultText, toolOutcome } from './tool-words.ts';

/** What a tool was asked and what it answered, in full. */
export function ToolBody({ row }: { readonly row: RowOf<'tool'> }) {
  const result = resultText(row);
  const changes = diffOfChanges(row, result);
  return (
    <>
      <Wanted row={row} />
      {changes !== undefined ? (
        <LongText name={`${row.key} result`} text={changes} isDiff />
      ) : (
        <Answered row={row} text={result} />
      )}
    </>
  );
}

/** What became of a file, once that is known; until then what was to become of it. */
function Wanted({ row }: { readonly row: RowOf<'tool'> }) {
  const made = row.results.map(({ data }) => stringIn(data, 'diff')).find((diff) => diff !== '');
  if (made !== undefined) return <LongText name={`${row.key} diff`} text={made} isDiff />;
  const edits = editsOf(row);
  return edits.length > 0 ? <EditDiff name={row.key} edits={edits} /> : <Asked row={row} />;
}

function Asked({ row }: { readonly row: RowOf<'tool'> }) {
  const { call, key } = row;
  const { command, ...others } = inputOf(row);
  const script = typeof command === 'string' ? command : (call?.text ?? '');
  const isTold = Object.keys(others).length > 0 && typeof command !== 'string';
  return (
    <>
      {!isTold && script !== '' && <LongText name={`${key} call`} text={script} isDiff={false} />}
      <Arguments fields={others} />
    </>
  );
}

function Arguments({ fields }: { readonly fields: Fields }) {
  const named = Object.entries(fields);
  if (named.length === 0) return null;
  return (
    <dl className="tool-arguments" aria-label="Arguments">
      {named.map(([field, value]) => (
        <Argument key={field} field={field} value={value} />
      ))}
    </dl>
  );
}

const Argument = ({ field, value }: { readonly field: string; readonly value: unknown }) => (
  <>
    <dt>{field}</dt>
    <dd>{typeof value === 'string' ? value : jsonText(value)}</dd>
  </>
);

function Answered({ row, text }: { readonly row: RowOf<'tool'>; readonly text: string }) {
  const { state } = toolOutcome(row);
  if (text.trim() !== '')
    return <LongText name={`${row.key} result`} text={text} isEnd={state === 'failed'} />;
  if (row.results.length > 0) return <p className="tool-empty">It returned nothing.</p>;
  if (state === 'ok') return null;
  return (
    <p className="tool-empty">
      {state === 'running' ? 'It is still at it.' : 'The run ended before it returned.'}
    </p>
  );
}

function EditDiff({ name, edits }: { readonly name: string; readonly edits: readonly Edit[] }) {
  const [diff, setDiff] = useState('');
  // biome-ignore lint/correctness/useExhaustiveDependencies: the name is the call's, and a call does not change.
  useEffect(() => {
    let isWanted = true;
    void diffOfEdits(edits).then((made) => isWanted && setDiff(made));
    return () => {
      isWanted = false;
    };
  }, [name]);
  return diff === '' ? null : <LongText name={`${name} diff`} text={diff} isDiff />;
}
