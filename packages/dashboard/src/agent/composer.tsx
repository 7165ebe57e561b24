import type { AgentStatus } from '@muster/sdk';
import { type FormEvent, type KeyboardEvent, type ReactNode, type RefObject, useId, useState } from 'react';
import { Button } from '../parts/button.tsx';
import { Problem } from '../parts/problem.tsx';
import { ComposerOptions } from './composer-options.tsx';
import { optionWords } from './draft.ts';
import { type Message, useMessage, whenWords } from './use-message.ts';
import './composer.css';

/** Where a message to the agent is written; while it asks, the answer. */
export function Composer({
  status,
  textRef,
}: {
  readonly status: AgentStatus;
  readonly textRef: RefObject<HTMLTextAreaElement | null>;
}) {
  const message = useMessage(status);
  const { draft, set, problems } = message;
  const [isOpen, setOpen] = useState(false);
  const ids = { text: useId(), note: useId(), options: useId() };
  const submit = (event: FormEvent | KeyboardEvent) => {
    event.preventDefault();
    message.send({
      onTaken: () => {
        setOpen(false);
        textRef.current?.focus();
      },
      onRefused: ({ isInOptions }) => setOpen(isInOptions || isOpen),
    });
  };
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event);
    if (event.key === 'Escape') event.currentTarget.blur();
  };
  const isAnswer = status.phaseReason === 'QUESTION';
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
          onChange={(event) => set({ text: event.target.value })}
          onKeyDown={onKeyDown}
          aria-describedby={ids.note}
          aria-invalid={problems.fields.has('description')}
          placeholder={isAnswer ? 'Answer the question …' : `Message ${status.agentId.agent.at(-1)} …`}
        />
        {isOpen && (
          <div id={ids.options} className="composer-options">
            <ComposerOptions {...{ status, draft, set }} problems={problems.fields} />
          </div>
        )}
        <ComposerBar {...{ status, message, isAnswer }} noteId={ids.note} isOpen={isOpen}>
          <Button
            look="quiet"
            aria-expanded={isOpen}
            aria-controls={isOpen ? ids.options : undefined}
            onClick={() => setOpen(!isOpen)}
          >
            Options
          </Button>
        </ComposerBar>
      </div>
    </form>
  );
}

const sendKey = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘' : 'Ctrl';

/** The options that are set, what will become of the message, and the button that sends it. */
function ComposerBar({
  status,
  message: { draft, problems, said, isSending, isSendable },
  isAnswer,
  isOpen,
  noteId,
  children,
}: {
  readonly status: AgentStatus;
  readonly message: Message;
  readonly isAnswer: boolean;
  readonly isOpen: boolean;
  readonly noteId: string;
  readonly children: ReactNode;
}) {
  const chosen = isOpen ? [] : optionWords(draft);
  const problem = problems.fields.get('description');
  const now = isAnswer ? 'Send answer' : 'Send';
  return (
    <div className="composer-bar">
      {children}
      {chosen.length > 0 && <span className="composer-chosen">{chosen.join(' · ')}</span>}
      <p id={noteId} className="composer-note" data-problem={problem !== undefined}>
        <span role="status">{problem ?? said}</span>
        {!problem && !said && (
          <>
            {whenWords(status, draft)}{' '}
            <span className="composer-keys">
              <kbd>{sendKey}</kbd> <kbd>Enter</kbd> sends, <kbd>Enter</kbd> is a new line.
            </span>
          </>
        )}
      </p>
      <Button type="submit" look="primary" disabled={!isSendable || isSending}>
        {isSending ? 'Sending …' : draft.deliverAt ? 'Send later' : now}
      </Button>
    </div>
  );
}
