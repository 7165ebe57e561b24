import { firstLine } from '@muster/sdk/contract';
import { Fold } from './fold.tsx';
import { Words } from './person-row.tsx';
import type { RowOf } from './rows.ts';
import './thinking-row.css';

export const ThinkingRow = ({ row: { key, entry } }: { readonly row: RowOf<'thinking'> }) => (
  <div className="thinking-row">
    <Fold
      name={key}
      head={
        <span className="fold-line">
          <strong>Thinking</strong> {firstLine(entry.text).replaceAll('**', '')}
        </span>
      }
    >
      {() => <Words name={key} text={entry.text} />}
    </Fold>
  </div>
);
