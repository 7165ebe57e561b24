import { memo } from 'react';
import { ErrorBoundary } from '../../parts/problem.tsx';
import { ChildRow } from './child-row.tsx';
import { EntryTime } from './entry-time.tsx';
import { NoticeRow } from './notice-row.tsx';
import { PersonRow, Words } from './person-row.tsx';
import { PushRow } from './push-row.tsx';
import { QuietRow } from './quiet-row.tsx';
import type { Row } from './rows.ts';
import { RunRow } from './run-row.tsx';
import { SetupRow } from './setup-row.tsx';
import { ThinkingRow } from './thinking-row.tsx';
import { ToolRow } from './tool-row.tsx';
import './row-view.css';

/** A row with its time, which is the way to it. */
export const RowView = memo(function RowView({
  row,
  isTimed,
}: {
  readonly row: Row;
  /** Whether its time stands there; else it is told when the row is pointed at. */
  readonly isTimed: boolean;
}) {
  return (
    <>
      <EntryTime
        className={isTimed ? 'row-time' : 'row-time row-untimed'}
        at={row.at}
        sequence={row.sequence}
      />
      <div className="row-content">
        <ErrorBoundary fallback={<pre className="row-plain">{textOf(row)}</pre>}>
          <RowContent row={row} />
        </ErrorBoundary>
      </div>
    </>
  );
});

/** What a row says, for when it can't be shown as it should. */
function textOf(row: Row): string {
  if ('entry' in row) return row.entry.text;
  const entries = 'entries' in row ? row.entries : [row.call, ...row.results];
  return entries.map((entry) => entry?.text ?? '').join('\n');
}

function RowContent({ row }: { readonly row: Row }) {
  switch (row.kind) {
    case 'person':
      return <PersonRow row={row} />;
    case 'message':
      return (
        <div className="voice-row" data-voice="agent">
          <Words name={row.key} text={row.entry.text} />
        </div>
      );
    case 'thinking':
      return <ThinkingRow row={row} />;
    case 'tool':
      return <ToolRow row={row} />;
    case 'setup':
      return <SetupRow row={row} />;
    case 'push':
      return <PushRow row={row} />;
    case 'child':
      return <ChildRow row={row} />;
    case 'run-start':
    case 'run-end':
      return <RunRow row={row} />;
    case 'quiet':
      return <QuietRow row={row} />;
    case 'question':
    case 'warning':
    case 'error':
    case 'abandoned':
    case 'unknown':
      return <NoticeRow row={row} />;
  }
}
