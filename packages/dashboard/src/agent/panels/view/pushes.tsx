import type { TimelineEntry } from '@muster/sdk';
import { useState } from 'react';
import { Button } from '../../../parts/button.tsx';
import { plural } from '../../../parts/model/text.ts';
import { Moment } from '../../../parts/times.tsx';
import { EntryLink } from './panel.tsx';

const listedPushes = 5;
const listedCommits = 4;
const listedPushedFiles = 200;

export function Pushes({ pushes }: { readonly pushes: readonly TimelineEntry[] }) {
  const [isAll, setAll] = useState(false);
  if (pushes.length === 0) return null;
  const shown = isAll ? pushes : pushes.slice(0, listedPushes);
  const hasRepos = new Set(pushes.map(({ data }) => data.repo)).size > 1;
  return (
    <div>
      <h3>{plural(pushes.length, 'push', 'pushes')}</h3>
      <ol className="lined-list" aria-label="Pushes">
        {shown.map((push) => (
          <Push key={push.sequence} push={push} hasRepo={hasRepos} />
        ))}
      </ol>
      {shown.length < pushes.length && (
        <Button look="quiet" onClick={() => setAll(true)}>
          Show all {pushes.length}
        </Button>
      )}
    </div>
  );
}

function Push({
  push: { sequence, at, runId, data },
  hasRepo,
}: {
  readonly push: TimelineEntry;
  readonly hasRepo: boolean;
}) {
  const commits = (data.commits as string[] | undefined) ?? [];
  return (
    <li>
      <span className="panel-row">
        <span>
          {commits.length === 0 && 'No new commits'}
          {commits.slice(0, listedCommits).map((commit) => (
            <code key={commit}>{commit.slice(0, 8)} </code>
          ))}
          {commits.length > listedCommits && ` and ${commits.length - listedCommits} more`}
        </span>
        <small>
          <EntryLink sequence={sequence}>run {runId}</EntryLink> · <Moment at={at} />
        </small>
      </span>
      {hasRepo && <small>{String(data.repo ?? '')}</small>}
      <PushedFiles files={(data.files as string[] | undefined) ?? []} />
    </li>
  );
}

function PushedFiles({ files }: { readonly files: readonly string[] }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{plural(files.length, 'file')}</summary>
      {isOpen && (
        <ul className="secondary">
          {files.slice(0, listedPushedFiles).map((file) => (
            <li key={file}>
              <code>{file}</code>
            </li>
          ))}
          {files.length > listedPushedFiles && <li>and {files.length - listedPushedFiles} more</li>}
        </ul>
      )}
    </details>
  );
}
