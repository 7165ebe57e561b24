import { type HistoryEntry, reasonOf } from '@muster/sdk';
import type { Kind } from '@muster/sdk/contract';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { DiffLines } from '../../parts/diff-lines.tsx';
import { accountName } from '../../parts/model/owner.ts';
import { Empty } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { Age, Moment } from '../../parts/times.tsx';
import { useClient } from '../../session/session.ts';
import { writtenText } from '../model/document-text.ts';
import { diffText } from '../model/text-merge.ts';
import { type Document, historyQuery } from './queries.ts';

type Entry = HistoryEntry<Document>;

interface HistoryViewProps {
  readonly kind: Kind;
  readonly name: string;
  /** The current generation. */
  readonly generation: string;
  /** Undefined if the caller may not write. */
  readonly onRestore?: ((text: string) => void) | undefined;
}

/** Every write of a resource: who, when, why, and the change. */
export function HistoryView({ kind, name, generation, onRestore }: HistoryViewProps) {
  const client = useClient();
  const { data, error, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(
    historyQuery(client, kind, name),
  );
  const entries: readonly Entry[] = data?.pages.flatMap((page) => page.entries) ?? [];
  // The oldest entry of a page is shown with the next page, because its diff needs the entry before it.
  const shown = hasNextPage ? entries.slice(0, -1) : entries;
  const text = (entry: Entry | undefined) => (entry?.document ? writtenText(kind, name, entry) : '');
  return (
    <div className="history-view stack">
      <Problem error={error} />
      {data && entries.length === 0 && (
        <Empty title="No history yet">
          <p>Every save is recorded here: who saved, when and why.</p>
        </Empty>
      )}
      <ol>
        {shown.map((entry, at) => (
          <Write
            key={entry.generation}
            entry={entry}
            text={text(entry)}
            before={text(entries[at + 1])}
            isFirst={entries[at + 1]?.document == null}
            isCurrent={entry.generation === generation}
            isInitiallyOpen={at === 0}
            onRestore={onRestore}
          />
        ))}
      </ol>
      {hasNextPage && (
        <Button disabled={isFetchingNextPage} onClick={() => fetchNextPage()}>
          Show older
        </Button>
      )}
    </div>
  );
}

interface WriteProps {
  readonly entry: Entry;
  readonly text: string;
  readonly before: string;
  readonly isFirst: boolean;
  readonly isCurrent: boolean;
  readonly isInitiallyOpen: boolean;
  readonly onRestore?: ((text: string) => void) | undefined;
}

function Write({ entry, text, before, isFirst, isCurrent, isInitiallyOpen, onRestore }: WriteProps) {
  const [isOpen, setOpen] = useState(isInitiallyOpen);
  const { generation, action, by, at, keyId, updateMask } = entry;
  const reason = reasonOf(entry);
  const isDelete = action === 'DELETE';
  return (
    <li>
      <div className="history-who wrap">
        <span className="history-generation">{generation}</span>
        <p>
          <strong title={by} dir="auto">
            {accountName(by)}
          </strong>{' '}
          {isDelete ? 'deleted' : isFirst ? 'created' : 'saved'}{' '}
          <span className="secondary">
            <Age since={at} /> ago (<Moment at={at} />) with key <code>{keyId}</code>
            {updateMask !== '' && updateMask !== '*' && (
              <>
                , only <code>{updateMask.replaceAll(',', ', ')}</code>
              </>
            )}
          </span>
        </p>
        {isCurrent && <span className="history-current">current</span>}
        {onRestore && !isDelete && !isCurrent && (
          <Button aria-label={`Restore generation ${generation}`} onClick={() => onRestore(text)}>
            Restore
          </Button>
        )}
      </div>
      {reason !== '' && <p className="history-why">{reason}</p>}
      {!isDelete && (
        <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>{isFirst ? 'Text' : 'Changes'}</summary>
          {isOpen && <Change before={before} after={text} />}
        </details>
      )}
    </li>
  );
}

/** What changed in the text of a document. */
export function Change({ before, after }: { readonly before: string; readonly after: string }) {
  const diff = diffText(before, after);
  return diff === '' ? <p className="secondary">No changes in the text.</p> : <DiffLines diff={diff} />;
}
