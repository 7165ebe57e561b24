import type { AgentStatus } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import {
  type FormEvent,
  type KeyboardEvent,
  type RefObject,
  useEffect,
  useId,
  useRef,
  useState,
} from 'react';
import { useFleetEntry } from '../../live/fleet.ts';
import { Button, LineIcon } from '../../parts/button.tsx';
import { DraftImages, ImageButton } from '../../parts/draft-images.tsx';
import { addedImages } from '../../parts/model/images.ts';
import { Problem } from '../../parts/problem.tsx';
import { usePerson } from '../../session/session.ts';
import {
  type Draft,
  deliveryText,
  isEmpty,
  isSendable,
  isTooLate,
  messageDrafts,
  messageProblems,
  sentText,
  withText,
} from '../model/message-draft.ts';
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
    message.send(() => {
      setOpen(false);
      textRef.current?.focus();
      onSent?.();
    });
  };
  const isAnswer = status.phaseReason === 'QUESTION';
  const { form, isActive, onFocus } = useActive();
  return (
    <form
      ref={form}
      className="composer stack"
      // While it is not used, it has one line.
      data-used={isActive || isOpen || !isEmpty(draft) || message.confirmation !== '' || imageProblem !== ''}
      onFocus={onFocus}
      onSubmit={submit}
      aria-label={isAnswer ? 'Answer' : 'Message'}
    >
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
        {message.isTooLate && <LateNote />}
        {/* Above the text, so that what is clicked below does not move. */}
        <div className="composer-bar">
          <div id={ids.options} className="composer-options">
            <ComposerOptions {...{ status, draft, update, isOpen }} problems={problems.fields} />
          </div>
          <ComposerNote {...{ status, message }} id={ids.note} />
        </div>
        <DraftImages images={draft.images} onChange={(images) => update({ images })} />
        {imageProblem !== '' && (
          <p className="field-error" role="status">
            {imageProblem}
          </p>
        )}
        <div className="composer-line">
          <ImageButton onAdd={addImages} />
          <MessageText {...{ status, textRef, message }} noteId={ids.note} onSend={submit} />
          <OptionsButton isOpen={isOpen} controls={ids.options} onToggle={() => setOpen(!isOpen)} />
          <SendButton {...{ status, message }} />
        </div>
      </div>
    </form>
  );
}

const LateNote = () => (
  <p className="composer-late" role="alert">
    Somebody else has answered this question. Your text is kept: send it as a message, or clear it.
  </p>
);

/**
 * Whether somebody is writing. It ends after the click or the key that moved the focus elsewhere: if the form became smaller
 * with the focus, what is clicked would move away under the pointer.
 */
function useActive() {
  const form = useRef<HTMLFormElement>(null);
  const [isActive, setActive] = useState(false);
  useEffect(() => {
    if (!isActive) return;
    const leave = () => {
      if (!form.current?.contains(document.activeElement)) setActive(false);
    };
    addEventListener('click', leave);
    addEventListener('keyup', leave);
    return () => {
      removeEventListener('click', leave);
      removeEventListener('keyup', leave);
    };
  }, [isActive]);
  return { form, isActive, onFocus: () => setActive(true) };
}

const OptionsButton = ({
  isOpen,
  controls,
  onToggle,
}: {
  readonly isOpen: boolean;
  readonly controls: string;
  readonly onToggle: () => void;
}) => (
  <Button
    look="quiet"
    className="composer-icon"
    aria-label="Options"
    title="Options: model, effort, time and more"
    aria-expanded={isOpen}
    aria-controls={controls}
    onClick={onToggle}
  >
    <LineIcon
      d="M1.5 4.5h7m4 0h2M1.5 11.5h2m4 0h7M8.5 4.5a2 2 0 1 0 4 0 2 2 0 0 0-4 0Zm-5 7a2 2 0 1 0 4 0 2 2 0 0 0-4 0Z"
      strokeWidth={1.5}
    />
  </Button>
);

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
      const { images, problem } = addedImages(draft.images, files);
      if (images.length > 0) update({ images: [...draft.images, ...images] });
      setImageProblem(problem);
    },
    send: (onSent: () => void) => {
      if (!isSendable(draft) || queue.isPending) return;
      const onSuccess = () => {
        setDraft(messageDrafts.get(key));
        setConfirmation(sentText(status, draft));
        onSent();
      };
      queue.mutate(draft, { onSuccess });
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
        dir="auto"
        rows={1}
        value={message.draft.text}
        onChange={(event) => message.write(event.target.value)}
        onKeyDown={(event) => {
          // Only the button sends as a message what was meant as an answer.
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !message.isTooLate) onSend(event);
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
        placeholder={isAnswer ? 'Your answer …' : `Message ${status.agentId.agent.at(-1)} …`}
      />
    </>
  );
}

const sendKey = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘' : 'Ctrl';

interface MessageProps {
  readonly status: AgentStatus;
  readonly message: Message;
}

function SendButton({ status, message: { draft, isSending, isSendable: canSend } }: MessageProps) {
  const sendNow = status.phaseReason === 'QUESTION' ? 'Send answer' : 'Send';
  return (
    <Button type="submit" look="primary" disabled={!canSend || isSending}>
      {isSending ? 'Sending …' : draft.deliverAt ? 'Send later' : sendNow}
    </Button>
  );
}

function ComposerNote({
  status,
  message: { draft, problems, confirmation },
  id,
}: MessageProps & { readonly id: string }) {
  const problem = problems.fields.get('description');
  return (
    <p id={id} className="composer-note secondary" data-problem={problem !== undefined}>
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
  );
}
