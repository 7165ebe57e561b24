import { type AuditRecord, reasonOf } from '@muster/sdk';
import { auditText, type Kind } from '@muster/sdk/contract';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useMemo, useRef, useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import { textOf } from '../../catalog/model/document-text.ts';
import { Change } from '../../catalog/view/history-view.tsx';
import { Button } from '../../parts/button.tsx';
import { SearchField, SelectField, TextField } from '../../parts/field.tsx';
import { accountName } from '../../parts/model/owner.ts';
import { Empty, useShortcuts, useTitle } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { Age, Moment } from '../../parts/times.tsx';
import { useClient, useSignedIn } from '../../session/session.ts';
import {
  type ActivityView,
  activityUrl,
  activityViewOf,
  detailsText,
  isFiltering,
  kindOptions,
  type Period,
  periodOptions,
  placeOf,
  subjectOf,
} from '../model/activity.ts';
import { activityQuery, writeQuery } from './queries.ts';
import '../activity.css';

/** Who did what and when, for admins. */
export function ActivityPage() {
  const { caller } = useSignedIn();
  useTitle('Activity · Muster');
  if (!/^(admin|operator)$/.test(caller.role))
    return (
      <Empty title="Activity is for admins" isPage>
        <p>It shows who did what: catalog writes, sign-ins, keys, members and kills.</p>
      </Empty>
    );
  return (
    <div className="activity-page stack">
      <h1>Activity</h1>
      <Activity />
    </div>
  );
}

function Activity() {
  const client = useClient();
  const search = useSearch();
  const view = useMemo(() => activityViewOf(search), [search]);
  const list = useRef<HTMLOListElement>(null);
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetching, isPlaceholderData } =
    useInfiniteQuery(activityQuery(client, view));
  const entries = data?.pages.flatMap((page) => page.entries) ?? [];
  return (
    <>
      <Filters view={view} onLeave={() => list.current?.querySelector<HTMLElement>('a, summary')?.focus()} />
      <Problem error={error}>
        <Button onClick={() => void refetch()}>Try again</Button>
      </Problem>
      {!data && !error && <p className="page-loading">Loading …</p>}
      {data && entries.length === 0 && !hasNextPage && (
        <Empty title="Nothing found">
          <p>{isFiltering(view) ? 'No record matches the filter.' : 'Nothing is on record yet.'}</p>
        </Empty>
      )}
      <ol className="activity-list" aria-label="Activity" aria-busy={isPlaceholderData} ref={list}>
        {entries.map((entry, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: records have no id, and their order does not change.
          <Entry key={`${entry.at} ${entry.kind} ${entry.name} ${entry.generation} ${at}`} entry={entry} />
        ))}
      </ol>
      {hasNextPage && (
        <Button disabled={isFetching} onClick={() => void fetchNextPage()}>
          {isFetching ? 'Searching …' : 'Show older'}
        </Button>
      )}
    </>
  );
}

interface FiltersProps {
  readonly view: ActivityView;
  /** Moves the focus from the search into the list. */
  readonly onLeave: () => void;
}

function Filters({ view, onLeave }: FiltersProps) {
  const [, navigate] = useLocation();
  const field = useRef<HTMLInputElement>(null);
  const change = (changed: Partial<ActivityView>) =>
    navigate(activityUrl({ ...view, ...changed }), { replace: true });
  useShortcuts({ '/': () => field.current?.focus() });
  return (
    <search className="activity-filters">
      <SearchField
        label="Search activity"
        placeholder="Search by person, name, reason or details"
        text={view.text}
        field={field}
        onSearch={(text) => change({ text })}
        onLeave={onLeave}
      />
      <div className="activity-choices wrap">
        <SelectField
          label="Kind"
          value={view.kind}
          options={kindOptions}
          onChange={(kind) => change({ kind })}
        />
        <SelectField
          label="Period"
          value={view.period}
          options={periodOptions}
          onChange={(period) => change({ period: period as Period })}
        />
        <ActorField key={view.actor} actor={view.actor} onChange={(actor) => change({ actor })} />
        {view.name !== '' && <Button onClick={() => change({ name: '' })}>Only {view.name} ×</Button>}
        {isFiltering(view) && <Button onClick={() => navigate('/activity')}>Clear filters</Button>}
      </div>
    </search>
  );
}

/** It takes effect with Enter, or when the field is left: half a name is nobody's. */
function ActorField({
  actor,
  onChange,
}: {
  readonly actor: string;
  readonly onChange: (actor: string) => void;
}) {
  const [typed, setTyped] = useState(actor);
  const apply = () => typed.trim() !== actor && onChange(typed.trim());
  return (
    <TextField
      label="Person"
      placeholder="codehost_oauth/ada"
      value={typed}
      onChange={setTyped}
      onBlur={apply}
      onKeyDown={(event) => event.key === 'Enter' && apply()}
      isCode
    />
  );
}

function Entry({ entry }: { readonly entry: AuditRecord }) {
  const { caller } = useSignedIn();
  const view = useMemo(() => activityViewOf(''), []);
  const { at, actor, keyId } = entry;
  const reason = reasonOf(entry);
  const place = placeOf(entry, caller.tenant);
  const subject = subjectOf(entry);
  const details = detailsText(entry);
  return (
    <li>
      <p>
        <Link href={activityUrl({ ...view, actor })} title={`Only what ${actor} did`}>
          {accountName(actor)}
        </Link>{' '}
        {auditText(entry)}{' '}
        {subject !== actor && (place ? <Link href={place}>{subject}</Link> : <strong>{subject}</strong>)}
      </p>
      <p className="secondary">
        <Age since={at} /> ago (<Moment at={at} />)
        {keyId !== '' && (
          <>
            {' '}
            with key <code>{keyId}</code>
          </>
        )}
        {details !== '' && <span>, {details}</span>}
      </p>
      {reason !== '' && <p className="activity-why">{reason}</p>}
      {entry.generation !== '' && <Write entry={entry} />}
    </li>
  );
}

/** What a catalog write changed, read when it is opened. */
function Write({ entry }: { readonly entry: AuditRecord }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Changes of generation {entry.generation}</summary>
      {isOpen && <Written entry={entry} />}
    </details>
  );
}

function Written({ entry }: { readonly entry: AuditRecord }) {
  const { kind, name, generation, action } = entry;
  const { data, error } = useQuery(writeQuery(useClient(), entry));
  if (error) return <Problem error={error} />;
  if (data === undefined) return <p className="page-loading">Loading …</p>;
  const text = (document: AuditRecord['document'] | undefined) =>
    document ? textOf(kind as Kind, name, document) : '';
  if (!data?.document && (action !== 'DELETE' || !data?.previousDocument))
    return <p className="secondary">The document of this generation is no longer kept.</p>;
  const isUnknown = generation !== '1' && action !== 'DELETE' && !data.previousDocument;
  return (
    <>
      {isUnknown && <p className="secondary">There is no document before it: this is the whole text.</p>}
      <Change before={text(data.previousDocument)} after={text(data.document)} />
    </>
  );
}
