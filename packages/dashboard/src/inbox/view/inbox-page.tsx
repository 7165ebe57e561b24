import { agentOfPage } from '@muster/sdk/contract';
import { useEffect, useLayoutEffect, useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { messageDrafts, withText } from '../../agent/model/message-draft.ts';
import { useFleet } from '../../live/fleet.ts';
import { Button, ViewSwitch } from '../../parts/button.tsx';
import { Empty, useShortcuts, useTitle } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { usePerson, useSignedIn } from '../../session/session.ts';
import { DoneNote, InboxAgent } from './inbox-agent.tsx';
import { InboxList } from './inbox-list.tsx';
import { type InboxControl, useInboxList } from './use-inbox-list.ts';
import '../inbox.css';

/** A narrow window shows either the list or the agent. */
type View = 'list' | 'agent';

/** The agents that need the person, beside the one that the person answers. */
export function InboxPage() {
  const control = useInboxList();
  const { current, items, isLoaded } = control;
  const { error } = useFleet().state;
  const [view, setView] = useState<View>('agent');
  const focus = useFocus(control);
  useTitle('Inbox · Muster');
  const agentId = current === null ? undefined : agentOfPage(current);
  return (
    <div className="inbox-page" data-view={agentId ? view : 'list'}>
      <aside className="inbox-side">
        <InboxHead control={control} />
        <Problem error={error} />
        {!isLoaded && items.length === 0 && error === null && (
          <p className="page-loading">Loading agents …</p>
        )}
        <InboxList
          control={control}
          currentRow={focus.currentRow}
          onOpen={(page) => {
            setView('agent');
            control.go(page);
            focus.due('answer');
          }}
        />
      </aside>
      {agentId && current !== null ? (
        <InboxAgent
          key={current}
          agentId={agentId}
          control={control}
          textRef={focus.textRef}
          onShown={focus.onShown}
          onSent={() => {
            focus.due('answer');
            control.onAnswered();
          }}
          onBack={() => setView('list')}
        />
      ) : (
        isLoaded && items.length === 0 && <NothingLeft control={control} />
      )}
    </div>
  );
}

type FocusTarget = 'answer' | 'row' | null;

/** Where the focus goes when another agent is shown: after an answer into the next answer, after a key to its row. */
function useFocus(control: InboxControl) {
  const [, navigate] = useLocation();
  const { current, step, markSeen } = control;
  const target = useRef<FocusTarget>(null);
  const textRef = useRef<HTMLTextAreaElement>(null);
  const currentRow = useRef<HTMLAnchorElement>(null);
  const due = (next: FocusTarget) => {
    target.current = next;
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: another agent has another row.
  useLayoutEffect(() => {
    if (target.current !== 'row') return;
    target.current = null;
    currentRow.current?.focus();
  }, [current]);
  useTypedAhead(() => (target.current === 'answer' ? current : null));
  const move = (act: () => void) => () => {
    due('row');
    act();
  };
  const next = move(() => step(1));
  const previous = move(() => step(-1));
  useShortcuts(
    {
      j: next,
      k: previous,
      ']': next,
      '[': previous,
      e: move(markSeen),
      o: () => current !== null && navigate(current),
      // The answer box may not be there yet.
      m: () => (textRef.current ? textRef.current.focus() : due('answer')),
    },
    { areFirst: true },
  );
  const onShown = () => {
    if (target.current !== 'answer') return;
    target.current = null;
    // On a touch screen the keyboard would cover the question.
    const box = matchMedia('(pointer: coarse)').matches ? null : textRef.current;
    (box ?? currentRow.current)?.focus();
  };
  return { textRef, currentRow, due, onShown };
}

/** What is typed before the answer box is there is not lost, and no shortcut. */
function useTypedAhead(pageToAnswer: () => string | null): void {
  const fleet = useFleet();
  const person = usePerson();
  const page = useRef(pageToAnswer);
  page.current = pageToAnswer;
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const typedFor = page.current();
      const entry = typedFor === null ? undefined : fleet.agent(typedFor);
      if (!entry || event.key.length !== 1 || event.ctrlKey || event.metaKey || event.altKey) return;
      if (document.querySelector('dialog[open]')) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      const key = `${person} ${typedFor}`;
      const draft = messageDrafts.get(key);
      messageDrafts.set(key, { ...draft, ...withText(draft, draft.text + event.key, entry) });
    };
    addEventListener('keydown', onKeyDown, true);
    return () => removeEventListener('keydown', onKeyDown, true);
  }, [fleet, person]);
}

const InboxHead = ({
  control: { scope, counts, items, chooseScope },
}: {
  readonly control: InboxControl;
}) => (
  <header className="inbox-head wrap">
    <h1>
      Inbox <span className="inbox-count">{items.length.toLocaleString()}</span>
    </h1>
    {(counts.everyone > counts.mine || scope === 'everyone') && (
      <ViewSwitch
        label="Whose agents"
        views={[
          ['mine', `Mine ${counts.mine.toLocaleString()}`],
          ['everyone', `Everyone ${counts.everyone.toLocaleString()}`],
        ]}
        view={scope}
        onChoose={chooseScope}
      />
    )}
  </header>
);

function NothingLeft({ control: { scope, counts, chooseScope, done } }: { readonly control: InboxControl }) {
  const { caller } = useSignedIn();
  const others = counts.everyone - counts.mine;
  return (
    <Empty title="Nothing needs you">
      {done && <DoneNote done={done} />}
      <p>
        {caller.role === 'viewer'
          ? 'Your key has the viewer role: it can read agents, but not answer them.'
          : 'Questions, failures and results of agents appear here as soon as they need an answer.'}
      </p>
      {scope === 'mine' && others > 0 && (
        <Button look="primary" onClick={() => chooseScope('everyone')}>
          Show everyone’s ({others.toLocaleString()})
        </Button>
      )}
      <p>
        <Link href="/">Go to agents</Link>
      </p>
    </Empty>
  );
}
