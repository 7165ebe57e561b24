import type { AgentId, AgentStatus } from '@muster/sdk';
import { agentOfPage, agentPage, firstLine } from '@muster/sdk/contract';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type KeyboardEvent, type RefObject, useEffect, useLayoutEffect, useRef } from 'react';
import { Link } from 'wouter';
import { reviewOfPage } from '../../agent/model/review-address.ts';
import { Checklist } from '../../agent/panels/view/checklist.tsx';
import { StatusLine } from '../../agent/view/agent-layout.tsx';
import { Dock } from '../../agent/view/dock.tsx';
import { statusQuery, useStatus } from '../../agent/view/use-agent.ts';
import { useFleetEntry } from '../../live/fleet.ts';
import { isOwn } from '../../live/model/allowed-actions.ts';
import { inboxSectionOf, stepFrom } from '../../live/model/inbox.ts';
import { Button } from '../../parts/button.tsx';
import { Markdown } from '../../parts/markdown.tsx';
import { plural, unpushedNote } from '../../parts/model/text.ts';
import { Empty } from '../../parts/page.tsx';
import { Problem, problemText } from '../../parts/problem.tsx';
import { useClient, useSignedIn } from '../../session/session.ts';
import type { InboxControl } from './use-inbox-list.ts';
import { useSwipe } from './use-swipe.ts';
import '../../agent/panels/panels.css';

interface InboxAgentProps {
  readonly agentId: AgentId;
  readonly control: InboxControl;
  readonly textRef: RefObject<HTMLTextAreaElement | null>;
  readonly onShown: () => void;
  readonly onSent: () => void;
  readonly onBack: () => void;
}

/** What a person needs to answer an agent, and the answer. The key `o` opens the rest. */
export function InboxAgent({ agentId, control, textRef, onShown, onSent, onBack }: InboxAgentProps) {
  const { query } = useStatus(agentId);
  const { data: status, error, refetch } = query;
  usePrefetchedNext(control);
  const swipe = useSwipe((by) => control.step(by));
  const isReady = status !== undefined || error !== null;
  const shown = useRef(onShown);
  shown.current = onShown;
  useLayoutEffect(() => {
    if (isReady) shown.current();
  }, [isReady]);
  const { hold, step } = control;
  // Moves on without leaving the answer box.
  const onKeyDown = (event: KeyboardEvent) => {
    if (!event.altKey || event.ctrlKey || event.metaKey || !/^Arrow(Up|Down)$/.test(event.key)) return;
    event.preventDefault();
    step(event.key === 'ArrowDown' ? 1 : -1);
  };
  return (
    <section
      className="inbox-agent"
      aria-label={agentId.agent.join(' / ')}
      onKeyDown={onKeyDown}
      onInput={() => hold('typing', true)}
      onBlur={() => hold('typing', false)}
      {...swipe}
    >
      <InboxBar {...{ agentId, control, onBack }} />
      {error && !status && (
        <Empty title="Agent unavailable">
          <p role="alert">{problemText(error)}</p>
          <Button onClick={() => void refetch()}>Try again</Button>
        </Empty>
      )}
      {status && (
        <>
          <Body status={status} />
          <div className="inbox-dock">
            <Dock status={status} textRef={textRef} hidesQuestion onSent={onSent} />
          </div>
        </>
      )}
    </section>
  );
}

/** So that the next agent is there immediately. */
function usePrefetchedNext({ items, current }: InboxControl): void {
  const client = useClient();
  const queryClient = useQueryClient();
  const next = stepFrom(items, current, 1);
  useEffect(() => {
    const agentId = next === null ? undefined : agentOfPage(next);
    if (agentId) void queryClient.prefetchQuery(statusQuery(client, agentId));
  }, [client, queryClient, next]);
}

function InboxBar({ agentId, control, onBack }: Pick<InboxAgentProps, 'agentId' | 'control' | 'onBack'>) {
  const { items, current, step, markSeen, done } = control;
  const index = items.findIndex(({ page }) => page === current);
  const hasOthers = stepFrom(items, current, 1) !== null;
  return (
    <div className="inbox-bar wrap">
      <Button className="inbox-back" onClick={onBack}>
        List
      </Button>
      {done ? (
        <DoneNote done={done} />
      ) : (
        <p className="secondary" role="status">
          {index === -1 ? 'Not in the inbox' : `${index + 1} of ${items.length.toLocaleString()}`}
        </p>
      )}
      <span className="inbox-bar-actions">
        <Button disabled={index === -1} title="Mark seen and go on (e)" onClick={markSeen}>
          Mark seen
        </Button>
        <Button
          className="inbox-previous"
          disabled={!hasOthers}
          title="Previous (k)"
          onClick={() => step(-1)}
        >
          Previous
        </Button>
        <Button disabled={!hasOthers} title="Next (j)" onClick={() => step(1)}>
          Next
        </Button>
        <Link className="button button-plain" href={agentPage(agentId)} title="Open the full page (o)">
          Open
        </Link>
      </span>
    </div>
  );
}

export const DoneNote = ({ done }: { readonly done: NonNullable<InboxControl['done']> }) => (
  <p className="inbox-done" role="status">
    {done.text}{' '}
    {done.undo && (
      <Button look="quiet" onClick={done.undo}>
        Undo
      </Button>
    )}
  </p>
);

function Body({ status }: { readonly status: AgentStatus }) {
  const { agentId, phaseReason, needsInput, response, tasks } = status;
  const { caller } = useSignedIn();
  const entry = useFleetEntry(agentPage(agentId));
  const isAsking = phaseReason === 'QUESTION';
  const main = isAsking ? needsInput || 'The agent gave no question.' : response;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard.
    <section className="inbox-body stack" tabIndex={0} aria-label="What the agent says">
      <header className="inbox-title">
        <h2 dir="auto">
          <Link href={agentPage(agentId)}>{agentId.agent.join(' / ')}</Link>
        </h2>
        <StatusLine status={status}>
          <span>in {agentId.workspace}</span>
          {!isOwn(status, caller) && <span>of {agentId.account}</span>}
        </StatusLine>
      </header>
      {entry && inboxSectionOf(entry) === null && (
        <p className="inbox-over" role="status">
          This agent does not need an answer at the moment. Somebody may have answered it, or it went on.
        </p>
      )}
      {main !== '' && (
        <section
          className="inbox-main"
          data-asking={isAsking}
          aria-label={isAsking ? 'Question' : 'Response'}
        >
          <Markdown text={main} />
        </section>
      )}
      <Work status={status} />
      {tasks.length > 0 && <Checklist status={status} />}
      <LastMessages status={status} main={main} />
    </section>
  );
}

/** What there is to review. */
function Work({
  status: { agentId, branch, diffStat, unpushed, changeRequests },
}: {
  readonly status: AgentStatus;
}) {
  const texts = [
    diffStat && `${plural(diffStat.files, 'file')} changed, +${diffStat.insertions} −${diffStat.deletions}`,
    unpushedNote(unpushed),
    changeRequests.length > 0 && plural(changeRequests.length, 'change request'),
  ].filter(Boolean);
  if (texts.length === 0 && branch === '') return null;
  return (
    <p className="inbox-work wrap">
      <span>{texts.length > 0 ? texts.join(' · ') : 'Pushed, without changes'}</span>
      <Link href={reviewOfPage(agentPage(agentId))}>Review changes</Link>
    </p>
  );
}

/** Before what is shown as the question or the response. */
const shownMessages = 3;

function LastMessages({ status, main }: { readonly status: AgentStatus; readonly main: string }) {
  const client = useClient();
  const { agentId, description } = status;
  const page = agentPage(agentId);
  const sequence = useFleetEntry(page)?.sequence;
  const { data, error } = useQuery({
    queryKey: ['last-messages', page, sequence],
    queryFn: ({ signal }) =>
      client.timelineNewest(agentId, {
        types: ['MESSAGE', 'FOLLOW_UP_QUEUED'],
        limit: shownMessages + 1,
        signal,
      }),
    placeholderData: (previous) => previous,
  });
  const messages = (data ?? []).filter(({ text }) => text.trim() !== '' && text.trim() !== main.trim());
  return (
    <section className="inbox-messages stack" aria-label="Last messages">
      <Problem error={error} />
      {description !== '' && (
        <details>
          <summary dir="auto">
            <span className="secondary">Task:</span> {firstLine(description)}
          </summary>
          <Markdown text={description} />
        </details>
      )}
      {messages.slice(-shownMessages).map(({ sequence: key, type, text }) => (
        <article key={key} data-from={type === 'MESSAGE' ? 'agent' : 'person'} dir="auto">
          <h3>{type === 'MESSAGE' ? 'Agent' : 'Message to the agent'}</h3>
          <Markdown text={text} />
        </article>
      ))}
    </section>
  );
}
