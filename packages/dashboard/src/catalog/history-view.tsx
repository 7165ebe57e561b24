import { type HistoryEntry, reasonOf } from '@muster/sdk';
import type { Kind } from '@muster/sdk/contract';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../parts/button.tsx';
import { DiffLines } from '../parts/diff-lines.tsx';
import { Empty } from '../parts/page.tsx';
import { Problem } from '../parts/problem.tsx';
import { Age, Moment } from '../parts/times.tsx';
import { useClient } from '../session/session.ts';
import { type Document, historyQuery } from './catalog-queries.ts';
import { diffText } from './text/diff-text.ts';
import { textOf } from './text/read-text.ts';
import './history-view.css';

type Entry = HistoryEntry<Document>;

/** Every write of a resource: who, when, why, and what it changed. */
export function HistoryView({
  kind,
  name,
  generation,
  onBringBack,
}: {
  readonly kind: Kind;
  readonly name: string;
  /** The one that is stored now. */
  readonly generation: string;
  /** Undefined where nothing can be changed. */
  readonly onBringBack?: ((text: string) => void) | undefined;
}) {
  const client = useClient();
  const { data, error, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(
    historyQuery(client, kind, name),
  );
  const entries: readonly Entry[] = data?.pages.flatMap((page) => page.entries) ?? [];
  // The oldest of a page waits for the one before it, against which its change is told.
  const shown = hasNextPage ? entries.slice(0, -1) : entries;
  const text = (entry: Entry | undefined) => (entry?.document ? textOf(kind, name, entry.document) : '');
  return (
    <div className="history-view">
      <Problem error={error} />
      {data && entries.length === 0 && (
        <Empty title="Nobody has written it yet">
          <p>Each save is kept here: who made it, when and why.</p>
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
            isOpenAtFirst={at === 0}
            onBringBack={onBringBack}
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

function Write({
  entry,
  text,
  before,
  isFirst,
  isCurrent,
  isOpenAtFirst,
  onBringBack,
}: {
  readonly entry: Entry;
  readonly text: string;
  readonly before: string;
  readonly isFirst: boolean;
  readonly isCurrent: boolean;
  readonly isOpenAtFirst: boolean;
  readonly onBringBack?: ((text: string) => void) | undefined;
}) {
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const { generation, action, by, at, keyId, updateMask } = entry;
  const reason = reasonOf(entry);
  const isDelete = action === 'DELETE';
  return (
    <li>
      <div className="history-who">
        <span className="history-generation">{generation}</span>
        <p>
          <strong>{by}</strong> {isDelete ? 'deleted it' : isFirst ? 'made it' : 'changed it'}{' '}
          <span className="history-when">
            <Age since={at} /> ago (<Moment at={at} />) with key <code>{keyId}</code>
            {updateMask !== '' && updateMask !== '*' && (
              <>
                , only <code>{updateMask.replaceAll(',', ', ')}</code>
              </>
            )}
          </span>
        </p>
        {isCurrent && <span className="history-current">stored now</span>}
        {onBringBack && !isDelete && !isCurrent && (
          <Button aria-label={`Bring back generation ${generation}`} onClick={() => onBringBack(text)}>
            Bring back
          </Button>
        )}
      </div>
      {reason !== '' && <p className="history-why">{reason}</p>}
      {!isDelete && (
        <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>{isFirst ? 'Its text' : 'What changed'}</summary>
          {isOpen && <Change before={before} after={text} />}
        </details>
      )}
    </li>
  );
}

function Change({ before, after }: { readonly before: string; readonly after: string }) {
  const diff = diffText(before, after);
  return diff === '' ? <p className="catalog-note">Its text stayed the same.</p> : <DiffLines diff={diff} />;
}
