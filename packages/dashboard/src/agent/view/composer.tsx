import type { AgentStatus } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { type FormEvent, type KeyboardEvent, type ReactNode, type RefObject, useId, useState } from 'react';
import { useFleetEntry } from '../../live/fleet.ts';
import { Button } from '../../parts/button.tsx';
import { Problem } from '../../parts/problem.tsx';
import { usePerson } from '../../session/session.ts';
import {
  addedImages,
  type Draft,
  deliveryText,
  isRunning,
  isSendable,
  isTooLate,
  maySteer,
  messageDrafts,
  messageProblems,
  optionTexts,
  sentText,
  withText,
} from '../model/message-draft.ts';
import { DraftImages, ImageButton } from './composer-images.tsx';
import { ComposerOptions } from './composer-options.tsx';
import { useCommand } from './use-agent.ts';

interface ComposerProps {
  readonly status: AgentStatus;
  readonly textRef: RefObject<HTMLTextAreaElement | null>;
  readonly onSent?: (() => void) | undefined;
}

export function Composer({ status, textRef, onSent }: ComposerProps) {
  const message = useMessage(status);
  const { draft, update, addImages, imageProblem, problems } = message;
  const [isOpen, setOpen] = useState(false);
  const ids = { note: useId(), options: useId() };
  const submit = (event: FormEvent | KeyboardEvent) => {
    event.preventDefault();
    message.send(
      () => {
        setOpen(false);
        textRef.current?.focus();
        onSent?.();
      },
      (error) => setOpen(messageProblems(error).isInOptions || isOpen),
    );
  };
  const isAnswer = status.phaseReason === 'QUESTION';
  return (
    <form className="composer stack" onSubmit={submit} aria-label={isAnswer ? 'Answer' : 'Message'}>
      <Problem error={problems.rest} />
      {/* biome-ignore lint/a11y/noStaticElementInteractions: dropping is a second way; the button is for everyone. */}
      <div
        className="composer-box"
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault();
          addImages([...event.dataTransfer.files]);
        }}
      >
        {message.isTooLate && (
          <p className="composer-late" role="alert">
            Somebody else has answered this question. Your text is kept: send it as a message, or clear it.
          </p>
        )}
        <MessageText
          {...{ status, textRef, message }}
          noteId={ids.note}
          // Only the button sends what was meant as an answer as a message.
          onSend={(event) => (message.isTooLate ? event.preventDefault() : submit(event))}
        />
        <DraftImages images={draft.images} onChange={(images) => update({ images })} />
        {imageProblem !== '' && (
          <p className="field-error" role="status">
            {imageProblem}
          </p>
        )}
        {isOpen && (
          <div id={ids.options} className="composer-options stack">
            <ComposerOptions {...{ status, draft, update }} problems={problems.fields} />
          </div>
        )}
        <ComposerBar {...{ status, message, isOpen }} noteId={ids.note}>
          <ImageButton onAdd={addImages} />
          {isRunning(status) && maySteer(draft) && <DeliveryChoice {...{ draft, update }} />}
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

type Message = ReturnType<typeof useMessage>;

/** The draft survives a visit to another page, and is sent once. */
function useMessage(status: AgentStatus) {
  const { agentId } = status;
  const page = agentPage(agentId);
  const key = `${usePerson()} ${page}`;
  const listed = useFleetEntry(page);
  // The list hears first of a question that a colleague has answered.
  const newest = listed && listed.phaseSince > status.phaseSince ? listed : status;
  const [draft, setDraft] = useState(() => messageDrafts.get(key));
  /** Confirms the last message until the user edits the next one. */
  const [confirmation, setConfirmation] = useState('');
  const [imageProblem, setImageProblem] = useState('');
  const queue = useCommand(agentId, async (client, sent: Draft) => {
    const attachmentIds: string[] = [];
    for (const { file } of sent.images)
      attachmentIds.push((await client.attachments.upload(agentId, file)).attachmentId);
    await client.queue(agentId, messageDrafts.toRequest(key, attachmentIds));
    // Not in a callback of the component, which may be unmounted before the reply.
    messageDrafts.accepted(key, sent);
  });
  const update = (changed: Partial<Draft>) => {
    const next = { ...draft, ...changed };
    messageDrafts.set(key, next);
    setDraft(next);
    setConfirmation('');
  };
  return {
    draft,
    confirmation,
    imageProblem,
    isTooLate: isTooLate(draft, newest),
    write: (text: string) => update(withText(draft, text, newest)),
    isSendable: isSendable(draft),
    isSending: queue.isPending,
    problems: messageProblems(queue.error),
    update,
    addImages: (files: readonly File[]) => {
      const { images, problem } = addedImages(draft, files);
      const added = images.map((file) => ({ name: file.name, file, url: URL.createObjectURL(file) }));
      if (added.length > 0) update({ images: [...draft.images, ...added] });
      setImageProblem(problem);
    },
    send: (onSent: () => void, onError: (error: unknown) => void) => {
      if (!isSendable(draft) || queue.isPending) return;
      const onSuccess = () => {
        setDraft(messageDrafts.get(key));
        setConfirmation(sentText(status, draft));
        onSent();
      };
      queue.mutate(draft, { onSuccess, onError });
    },
  };
}

interface MessageTextProps extends ComposerProps {
  readonly message: Message;
  readonly noteId: string;
  readonly onSend: (event: KeyboardEvent) => void;
}

function MessageText({ status, textRef, message, noteId, onSend }: MessageTextProps) {
  const id = useId();
  const isAnswer = status.phaseReason === 'QUESTION';
  return (
    <>
      <label className="visually-hidden" htmlFor={id}>
        {isAnswer ? 'Your answer' : 'Message to the agent'}
      </label>
      <textarea
        id={id}
        ref={textRef}
        rows={2}
        value={message.draft.text}
        onChange={(event) => message.write(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) onSend(event);
          if (event.key === 'Escape') event.currentTarget.blur();
        }}
        onPaste={(event) => {
          const files = [...event.clipboardData.files];
          if (files.length === 0) return;
          event.preventDefault();
          message.addImages(files);
        }}
        aria-describedby={noteId}
        aria-invalid={message.problems.fields.has('description')}
        placeholder={isAnswer ? 'Answer the question …' : `Message ${status.agentId.agent.at(-1)} …`}
      />
    </>
  );
}

const DeliveryChoice = ({ draft, update }: Pick<Message, 'draft' | 'update'>) => (
  <select
    aria-label="Delivery"
    value={draft.isAfterTurn ? 'after' : 'steer'}
    onChange={(event) => update({ isAfterTurn: event.target.value === 'after' })}
  >
    <option value="steer">Add to this turn</option>
    <option value="after">After this turn</option>
  </select>
);

const sendKey = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘' : 'Ctrl';

function ComposerBar({
  status,
  message: { draft, problems, confirmation, isSending, isSendable: canSend },
  isOpen,
  noteId,
  children,
}: {
  readonly status: AgentStatus;
  readonly message: Message;
  readonly isOpen: boolean;
  readonly noteId: string;
  readonly children: ReactNode;
}) {
  const chosen = isOpen ? [] : optionTexts(draft);
  const problem = problems.fields.get('description');
  const sendNow = status.phaseReason === 'QUESTION' ? 'Send answer' : 'Send';
  return (
    <div className="composer-bar">
      {children}
      {chosen.length > 0 && <span className="composer-chosen secondary">{chosen.join(' · ')}</span>}
      <p id={noteId} className="composer-note secondary" data-problem={problem !== undefined}>
        <span role="status">{problem ?? confirmation}</span>
        {!problem && !confirmation && (
          <>
            {deliveryText(status, draft)}{' '}
            <span className="composer-keys">
              <kbd>{sendKey}</kbd> <kbd>Enter</kbd> to send, <kbd>Enter</kbd> for a new line.
            </span>
          </>
        )}
      </p>
      <Button type="submit" look="primary" disabled={!canSend || isSending}>
        {isSending ? 'Sending …' : draft.deliverAt ? 'Send later' : sendNow}
      </Button>
    </div>
  );
}
