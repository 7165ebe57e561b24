import { Fragment, useEffect, useState } from 'react';
import { jsonText } from '../../../parts/model/text.ts';
import { type RowOf, stringIn, stringsIn } from '../model/rows.ts';
import {
  diffOfChanges,
  diffOfEdits,
  type Edit,
  editsOf,
  type Fields,
  inputOf,
  lineCount,
  resultText,
  type ToolOutcome,
  terminalText,
  toolName,
  toolOutcome,
  toolSummary,
} from '../model/tool-call.ts';
import { EntryLines } from './entry-time.tsx';
import { Expandable, LongText } from './expandable.tsx';
import { MessageImages } from './message-images.tsx';

interface ToolProps {
  readonly row: RowOf<'tool'>;
}

const outcomeIcons: Readonly<Record<ToolOutcome['state'], string>> = {
  running: '',
  ok: '✓',
  failed: '✗',
  none: '–',
};

/** A tool call in one line, with the images that it returned; expanded, its arguments and results. */
export const ToolRow = ({ row }: ToolProps) => (
  <>
    <ToolLine row={row} />
    <MessageImages ids={imagesOf(row)} of={toolSummary(row).slice(0, altLength)} />
  </>
);

const altLength = 100;

const imagesOf = ({ results }: RowOf<'tool'>): string[] => [
  ...new Set(results.flatMap(({ data }) => stringsIn(data.attachmentIds))),
];

function ToolLine({ row }: ToolProps) {
  const { state, text } = toolOutcome(row);
  return (
    <Expandable
      name={row.key}
      className="tool-row"
      head={
        <>
          <span className="tool-name">{toolName(row)}</span>
          <span className="expandable-line tool-summary" dir="auto">
            {toolSummary(row)}
          </span>
          {row.liveOutput !== undefined && (
            <span className="tool-live" aria-hidden="true">
              {lastLine(terminalText(row.liveOutput))}
            </span>
          )}
          <span className="tool-outcome" data-state={state}>
            <span className={state === 'ok' ? 'visually-hidden' : undefined}>{text}</span>
            <span className="tool-icon" aria-hidden="true">
              {outcomeIcons[state]}
            </span>
          </span>
        </>
      }
    >
      {() => <ToolDetails row={row} />}
    </Expandable>
  );
}

const lastLine = (text: string): string => text.trimEnd().split('\n').at(-1) ?? '';

function ToolDetails({ row }: ToolProps) {
  const result = resultText(row);
  const changes = diffOfChanges(row, result);
  return (
    <>
      <Request row={row} />
      {changes === undefined ? (
        <Result row={row} text={result} />
      ) : (
        <LongText name={`${row.key} result`} text={changes} isDiff />
      )}
      {row.changes.length > 0 && <EntryLines entries={row.changes} />}
    </>
  );
}

/** The diff of an edit: the reported one if there is a result, else the requested one. */
function Request({ row }: ToolProps) {
  const reported = row.results.map(({ data }) => stringIn(data, 'diff')).find((diff) => diff !== '');
  if (reported !== undefined) return <LongText name={`${row.key} diff`} text={reported} isDiff />;
  const edits = editsOf(row);
  return edits.length > 0 ? <EditDiff name={row.key} edits={edits} /> : <Arguments row={row} />;
}

function EditDiff({ name, edits }: { readonly name: string; readonly edits: readonly Edit[] }) {
  const [diff, setDiff] = useState('');
  // biome-ignore lint/correctness/useExhaustiveDependencies: the edits of a call do not change.
  useEffect(() => {
    let isMounted = true;
    void diffOfEdits(edits).then((made) => isMounted && setDiff(made));
    return () => {
      isMounted = false;
    };
  }, [name]);
  return diff === '' ? null : <LongText name={`${name} diff`} text={diff} isDiff />;
}

function Arguments({ row }: ToolProps) {
  const { command, ...others } = inputOf(row);
  const script = typeof command === 'string' ? command : (row.call?.text ?? '');
  const isSummary = Object.keys(others).length > 0 && typeof command !== 'string';
  return (
    <>
      {!isSummary && script !== '' && <LongText name={`${row.key} call`} text={script} isDiff={false} />}
      <ArgumentList fields={others} />
    </>
  );
}

function ArgumentList({ fields }: { readonly fields: Fields }) {
  const named = Object.entries(fields);
  if (named.length === 0) return null;
  return (
    <dl className="tool-arguments" aria-label="Arguments">
      {named.map(([name, value]) => (
        <Fragment key={name}>
          <dt>{name}</dt>
          <dd dir="auto">{typeof value === 'string' ? value : jsonText(value)}</dd>
        </Fragment>
      ))}
    </dl>
  );
}

function Result({ row, text }: ToolProps & { readonly text: string }) {
  const { state } = toolOutcome(row);
  if (text.trim() !== '')
    return <LongText name={`${row.key} result`} text={text} isEnd={state === 'failed'} />;
  const output = terminalText(row.liveOutput ?? '');
  if (output.trim() !== '') return <LongText name={`${row.key} result`} text={output} isDiff={false} isEnd />;
  if (imagesOf(row).length > 0) return null;
  if (row.results.length > 0) return <p className="secondary">No output</p>;
  if (state === 'ok') return null;
  return (
    <p className="secondary">
      {state === 'running' ? 'Still running' : 'The run ended before the tool returned.'}
    </p>
  );
}

/** A setup command of the workspace; expanded, its output. */
export function SetupRow({ row: { key, entries } }: { readonly row: RowOf<'setup'> }) {
  const command = stringIn(entries[0]?.data ?? {}, 'command');
  const printed = entries.map(({ text }) => text).join('');
  const output =
    command !== '' && printed.startsWith(`$ ${command}\n`) ? printed.slice(command.length + 3) : printed;
  const text = terminalText(output).trimEnd();
  const lines = lineCount(text);
  return (
    <Expandable
      name={key}
      className="tool-row"
      head={
        <>
          <span className="tool-name">Setup</span>
          <span className="expandable-line tool-summary">{command}</span>
          <span className="tool-outcome">
            {lines.toLocaleString('en')} {lines === 1 ? 'line' : 'lines'}
          </span>
        </>
      }
    >
      {() => (text === '' ? <p className="secondary">No output</p> : <LongText name={key} text={text} />)}
    </Expandable>
  );
}
