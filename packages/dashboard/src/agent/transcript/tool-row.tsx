import { Fold } from './fold.tsx';
import type { RowOf } from './rows.ts';
import { ToolBody } from './tool-body.tsx';
import { type ToolOutcome, toolName, toolOutcome, toolSummary } from './tool-words.ts';
import './tool-row.css';

/** A call and what came of it, in one line that opens. */
export function ToolRow({ row }: { readonly row: RowOf<'tool'> }) {
  const outcome = toolOutcome(row);
  return (
    <div className="tool-row">
      <Fold
        name={row.key}
        head={
          <>
            <span className="tool-name">{toolName(row)}</span>
            <span className="fold-line tool-summary">{toolSummary(row)}</span>
            <Outcome outcome={outcome} />
          </>
        }
      >
        {() => <ToolBody row={row} />}
      </Fold>
    </div>
  );
}

const marks: Readonly<Record<ToolOutcome['state'], string>> = {
  running: '',
  ok: '✓',
  failed: '✗',
  none: '–',
};

const Outcome = ({ outcome: { state, words } }: { readonly outcome: ToolOutcome }) => (
  <span className="tool-outcome" data-state={state}>
    <span className={state === 'ok' ? 'visually-hidden' : undefined}>{words}</span>
    <span className="tool-mark" aria-hidden="true">
      {marks[state]}
    </span>
  </span>
);
