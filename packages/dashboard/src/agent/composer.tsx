import type { AgentStatus } from '@muster/sdk';
import { agentPage, clock, isTerminal } from '@muster/sdk/contract';
import { type FormEvent, type KeyboardEvent, type RefObject, useId, useState } from 'react';
import { Button } from '../parts/button.tsx';
import { Problem } from '../parts/problem.tsx';
import { ComposerOptions } from './composer-options.tsx';
import { type Draft, drafts, emptyDraft, isSendable, optionWords } from './draft.ts';
import { messageProblems } from './message-problems.ts';
import { useCommand } from './use-command.ts';
import './composer.css';

/** Where a message to the agent is written. What was begun stays while one looks at other pages. */
export function Composer({
  status,
  textRef,
}: {
  readonly status: AgentStatus;
  readonly textRef: RefObject<HTMLTextAreaElement | null>;
}) {
  const { agentId } = status;
  const page = agentPage(agentId);
  const [draft, setDraft] = useState(() => drafts.of(page));
  const [isOpen, setOpen] = useState(false);
  const [said, setSaid] = useState('');
  const ids = { text: useId(), note: useId(), options: useId() };
  const send = useCommand(agentId, (client) => client.queue(agentId, drafts.toSend(page)));
  const problems = messageProblems(send.error);

  const become = (next: Draft) => {
    drafts.keep(page, next);
    setDraft(next);
    setSaid('');
  };
  const submit = (event?: FormEvent) => {
    event?.preventDefault();
    if (!isSendable(draft) || send.isPending) return;
    send.mutate(undefined, {
      onSuccess: () => {
        drafts.taken(page);
        setDraft(emptyDraft);
        setOpen(false);
        setSaid(takenWords(status, draft));
        textRef.current?.focus();
      },
      onError: (error) => setOpen(messageProblems(error).isInOptions || isOpen),
    });
  };
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      submit();
    }
    if (event.key === 'Escape') event.currentTarget.blur();
  };

  const isAnswer = status.phaseReason === 'QUESTION';
  const chosen = optionWords(draft);
  const textProblem = problems.fields.get('description');
  return (
    <form className="composer" onSubmit={submit} aria-label={isAnswer ? 'Answer' : 'Message'}>
      <Problem error={problems.rest} />
      <div className="composer-box">
        <label className="visually-hidden" htmlFor={ids.text}>
          {isAnswer ? 'Your answer' : 'Message to the agent'}
        </label>
        <textarea
          id={ids.text}
          ref={textRef}
          rows={2}
          value={draft.text}
          onChange={(event) => become({ ...draft, text: event.target.value })}
          onKeyDown={onKeyDown}
          aria-describedby={ids.note}
          aria-invalid={textProblem !== undefined}
          placeholder={isAnswer ? 'Answer the question …' : `Message ${agentId.agent.at(-1)} …`}
        />
        {isOpen && (
          <div id={ids.options} className="composer-options">
            <ComposerOptions
              status={status}
              draft={draft}
              set={(part) => become({ ...draft, ...part })}
              problems={problems.fields}
            />
          </div>
        )}
        <div className="composer-bar">
          <Button
            look="quiet"
            aria-expanded={isOpen}
            aria-controls={isOpen ? ids.options : undefined}
            onClick={() => setOpen(!isOpen)}
          >
            Options
          </Button>
          {!isOpen && chosen.length > 0 && <span className="composer-chosen">{chosen.join(' · ')}</span>}
          <p id={ids.note} className="composer-note" data-problem={textProblem !== undefined}>
            <span role="status">{textProblem ?? said}</span>
            {!textProblem && !said && (
              <>
                {whenWords(status, draft)}{' '}
                <span className="composer-keys">
                  <kbd>{sendKey}</kbd> <kbd>Enter</kbd> sends, <kbd>Enter</kbd> is a new line.
                </span>
              </>
            )}
          </p>
          <Button type="submit" look="primary" disabled={!isSendable(draft) || send.isPending}>
            {send.isPending
              ? 'Sending …'
              : draft.deliverAt
                ? 'Send later'
                : isAnswer
                  ? 'Send answer'
                  : 'Send'}
          </Button>
        </div>
      </div>
    </form>
  );
}

const sendKey = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘' : 'Ctrl';

const isAtWork = ({ phase }: AgentStatus): boolean => phase === 'PHASE_RUNNING';

/** When a message that is sent now will reach the agent. */
function whenWords(status: AgentStatus, draft: Draft): string {
  if (draft.deliverAt) return `It comes at ${clock(new Date(draft.deliverAt).toISOString())}.`;
  if (draft.isPreempting) return 'It runs next.';
  if (isAtWork(status)) return 'It waits in the queue until this turn ends.';
  return status.phase === 'PHASE_PENDING' && status.phaseReason !== 'CHILDREN'
    ? 'It waits in the queue.'
    : 'It starts a turn at once.';
}

function takenWords(status: AgentStatus, draft: Draft): string {
  if (draft.deliverAt) return `Deferred until ${clock(new Date(draft.deliverAt).toISOString())}.`;
  return isAtWork(status) && !draft.isPreempting && !isTerminal(status.phase) ? 'Queued.' : 'Sent.';
}
