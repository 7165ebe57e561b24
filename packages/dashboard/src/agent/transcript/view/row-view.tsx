import { agentPage, dollars, firstLine, planStepsIn, type TimelineEntry } from '@muster/sdk/contract';
import { memo, type ReactNode, useContext, useEffect } from 'react';
import { Link } from 'wouter';
import { durationText, plural } from '../../../parts/model/text.ts';
import { ErrorBoundary } from '../../../parts/problem.tsx';
import { outcomeText } from '../../model/status-text.ts';
import { PlanSteps } from '../../panels/view/plan.tsx';
import { childText, contextIn, systemText, unknownText } from '../model/entry-text.ts';
import { isQuiet, type Row, type RowOf, stringIn, stringsIn } from '../model/rows.ts';
import { EntryLines, EntryTime } from './entry-time.tsx';
import { Expandable, LongText, MarkdownText } from './expandable.tsx';
import { MessageImages } from './message-images.tsx';
import { SetupRow, ToolRow } from './tool-row.tsx';
import { OpenQuestionContext, useEndedRun, useTranscript } from './transcript-context.ts';

export const RowView = memo(function RowView({
  row,
  isTimeShown,
}: {
  readonly row: Row;
  /** Otherwise the time is shown on hover. */
  readonly isTimeShown: boolean;
}) {
  return (
    <>
      <EntryTime
        className={isTimeShown ? 'row-time' : 'row-time row-time-hidden'}
        at={row.at}
        sequence={row.sequence}
      />
      <div className="row-content">
        <ErrorBoundary fallback={<pre className="markdown-plain">{plainText(row)}</pre>}>
          <RowContent row={row} />
        </ErrorBoundary>
      </div>
    </>
  );
});

/** Shown if a row fails to render. */
function plainText(row: Row): string {
  if ('entry' in row) return row.entry.text;
  const entries = 'entries' in row ? row.entries : [row.call, ...row.results];
  return entries.map((entry) => entry?.text ?? '').join('\n');
}

function RowContent({ row }: { readonly row: Row }) {
  switch (row.kind) {
    case 'user':
      return <UserRow row={row} />;
    case 'message':
      return (
        <MessageRow tone="agent">
          <MarkdownText name={row.key} text={row.entry.text} />
        </MessageRow>
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
    case 'plan':
      return <PlanRow row={row} />;
    case 'compaction':
      return (
        <p className="run-row secondary" dir="auto">
          {firstLine(row.entry.text)}
        </p>
      );
    case 'run-start':
      return <RunStartRow row={row} />;
    case 'run-end':
      return <RunEndRow row={row} />;
    case 'system':
      return <SystemRow row={row} />;
    case 'question':
    case 'warning':
    case 'error':
    case 'abandoned':
    case 'unknown':
      return <NoticeRow row={row} />;
  }
}

const MessageRow = ({
  tone,
  title,
  children,
}: {
  readonly tone: string;
  readonly title?: ReactNode;
  readonly children: ReactNode;
}) => (
  <div className="message-row stack" data-tone={tone}>
    {title !== undefined && <p className="message-title">{title}</p>}
    {children}
  </div>
);

/** The task of the agent, or a message that was delivered to it. */
function UserRow({ row: { key, entry, text } }: { readonly row: RowOf<'user'> }) {
  const isTask = entry.type === 'AGENT_SPAWNED';
  const model = stringIn(entry.data, 'model');
  const attachmentIds = stringsIn(entry.data.attachmentIds);
  const title = (
    <>
      {isTask ? 'Task' : 'Message'}
      {isTask && model !== '' && <span> for {model}</span>}
      {entry.data.steer === true && <span> during the turn</span>}
    </>
  );
  return (
    <MessageRow tone="user" title={title}>
      {text === null ? (
        <MissingText followUpId={entry.followUpId} />
      ) : (
        <MarkdownText name={key} text={text} />
      )}
      <MessageImages ids={attachmentIds} />
    </MessageRow>
  );
}

function MissingText({ followUpId }: { readonly followUpId: string }) {
  const { findMessageText } = useTranscript();
  useEffect(() => findMessageText(followUpId), [findMessageText, followUpId]);
  return <p className="secondary">Message delivered. Its text is further up, where it was queued.</p>;
}

type Notice = RowOf<'question'> | RowOf<'warning'> | RowOf<'error'> | RowOf<'abandoned'> | RowOf<'unknown'>;

const notices: Readonly<Record<Notice['kind'], readonly [title: string, tone: string]>> = {
  question: ['Question', 'question'],
  warning: ['Warning', 'warning'],
  error: ['Error', 'error'],
  abandoned: ['Abandoned', 'note'],
  unknown: ['Other', 'note'],
};

function NoticeRow({ row }: { readonly row: Notice }) {
  const openQuestion = useContext(OpenQuestionContext);
  if (row.kind === 'question' && openQuestion !== '' && row.entry.text === openQuestion)
    return <OpenQuestionRow row={row} />;
  return <WholeNotice row={row} />;
}

/** The form for the answer has all of it. */
const OpenQuestionRow = ({ row: { key, entry } }: { readonly row: RowOf<'question'> }) => (
  <Expandable
    name={key}
    className="question-row"
    head={
      <span className="expandable-line">
        <strong>Question</strong> shown below
      </span>
    }
  >
    {() => <MarkdownText name={key} text={entry.text} />}
  </Expandable>
);

function WholeNotice({ row }: { readonly row: Notice }) {
  const [title, tone] = notices[row.kind];
  const code = row.kind === 'error' ? stringIn(row.entry.data, 'code') : '';
  return (
    <MessageRow
      tone={tone}
      title={
        <>
          {title} {code !== '' && <code>{code}</code>}
        </>
      }
    >
      <MarkdownText name={row.key} text={noticeText(row)} />
    </MessageRow>
  );
}

function noticeText({ kind, entry }: Notice): string {
  if (kind === 'unknown') return unknownText(entry);
  if (kind !== 'abandoned') return entry.text || 'No reason given.';
  const { followUpIds } = entry.data;
  const count = Array.isArray(followUpIds) ? followUpIds.length : 0;
  return count === 0
    ? 'The retry was canceled by a newer message.'
    : `${plural(count, 'message')} will not be retried: a newer message preempted the retry.`;
}

const PlanRow = ({ row: { key, entry } }: { readonly row: RowOf<'plan'> }) => (
  <Expandable
    name={key}
    className="plan-row"
    head={
      <span className="expandable-line" dir="auto">
        <strong>Plan</strong> {firstLine(entry.text)}
      </span>
    }
  >
    {() => <PlanSteps steps={planStepsIn(entry.data)} />}
  </Expandable>
);

const ThinkingRow = ({ row: { key, entry } }: { readonly row: RowOf<'thinking'> }) => (
  <Expandable
    name={key}
    className="thinking-row"
    head={
      <span className="expandable-line" dir="auto">
        <strong>Thinking</strong> {thinkingLine(entry).replaceAll('**', '')}
      </span>
    }
  >
    {() => <MarkdownText name={key} text={entry.text} />}
  </Expandable>
);

/** The last line while the agent thinks, so that it can be followed; then the first. */
const thinkingLine = ({ sequence, text }: TimelineEntry): string =>
  sequence === '0' ? (text.trimEnd().split('\n').at(-1) ?? '') : firstLine(text);

function PushRow({ row: { key, entry } }: { readonly row: RowOf<'push'> }) {
  const commits = stringsIn(entry.data.commits);
  const files = stringsIn(entry.data.files);
  const repo = stringIn(entry.data, 'repo');
  return (
    <Expandable
      name={key}
      className="push-row"
      head={
        <>
          <span className="push-icon" aria-hidden="true">
            ↑
          </span>
          <span className="expandable-line" dir="auto">
            <strong>Pushed</strong> <code>{entry.text}</code>
            {` · ${plural(commits.length, 'commit')}, ${plural(files.length, 'file')}`}
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
    </Expandable>
  );
}

function ChildRow({ row: { entry } }: { readonly row: RowOf<'child'> }) {
  const isNew = entry.type === 'CHILD_SPAWNED';
  return (
    <p className="child-row">
      <span aria-hidden="true">↳</span> {isNew ? 'Spawned' : 'Child'} <ChildLink entry={entry} />{' '}
      {!isNew && childText(entry)}
    </p>
  );
}

function ChildLink({ entry: { text, data } }: Pick<RowOf<'child'>, 'entry'>) {
  const { agentId, isLinked } = useTranscript();
  const { child } = data;
  const isPath = Array.isArray(child) && child.every((part) => typeof part === 'string');
  if (!isLinked || !isPath) return <strong>{text}</strong>;
  return <Link href={agentPage({ ...agentId, agent: child as string[] })}>{text}</Link>;
}

function RunStartRow({ row: { key, entry, entries } }: { readonly row: RowOf<'run-start'> }) {
  const runner = stringIn(entry.data, 'runner');
  const others = entries.filter((each) => each !== entry && !isQuiet(each));
  const line = (
    <>
      <strong>Run {entry.runId}</strong> started{entry.text !== '' && ` · ${entry.text}`}
      {runner !== '' && ` · on ${runner}`}
    </>
  );
  if (others.length === 0) return <p className="run-row secondary">{line}</p>;
  return (
    <Expandable
      name={key}
      className="run-row secondary"
      head={
        <span className="expandable-line" dir="auto">
          {line} · {summaryOf(others)}
        </span>
      }
    >
      {() => <EntryLines entries={entries} />}
    </Expandable>
  );
}

function RunEndRow({ row: { entry, startedAt } }: { readonly row: RowOf<'run-end'> }) {
  const { runId, text, at } = entry;
  const run = useEndedRun(runId);
  const start = startedAt ?? run?.startedAt;
  const context = contextIn(entry);
  return (
    <p className="run-row secondary" data-outcome={text}>
      <strong>
        Run {runId} {outcomeText(text)}
      </strong>
      {start && ` · took ${durationText(Date.parse(at) - Date.parse(start))}`}
      {run && run.cost > 0 && ` · ${dollars(run.cost)}`}
      {context !== '' && ` · context: ${context}`}
    </p>
  );
}

const summarizedEntries = 4;

function SystemRow({ row: { entries, key } }: { readonly row: RowOf<'system'> }) {
  const [first] = entries;
  if (first && entries.length === 1)
    return (
      <p className="system-row system-line" dir="auto">
        {systemText(first)}
      </p>
    );
  const loud = entries.filter((entry) => !isQuiet(entry));
  return (
    <Expandable
      name={key}
      className="system-row"
      head={
        <span className="expandable-line" dir="auto">
          {summaryOf(loud.length > 0 ? loud : entries)}
        </span>
      }
    >
      {() => <EntryLines entries={entries} />}
    </Expandable>
  );
}

function summaryOf(entries: readonly TimelineEntry[]): string {
  const newest = entries.slice(-summarizedEntries).map((entry) => systemText(entry, true));
  const rest = entries.length - newest.length;
  return [...newest, ...(rest > 0 ? [`${rest} earlier`] : [])].join(' · ');
}
