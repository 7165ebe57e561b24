import type { AgentId, AgentStatus, PendingFollowUp } from '@muster/sdk';
import { agentPage, type FollowUp } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Button, ExpandIcon } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { Markdown } from '../../parts/markdown.tsx';
import { plural } from '../../parts/model/text.ts';
import { Problem } from '../../parts/problem.tsx';
import { Age, Countdown, Moment } from '../../parts/times.tsx';
import { useClient } from '../../session/session.ts';
import { isRunning } from '../model/message-draft.ts';
import { useCommand } from './use-agent.ts';

/** More messages than this are shown on request. */
const shownAtFirst = 30;

export function Queue({ status, mayChange }: { readonly status: AgentStatus; readonly mayChange: boolean }) {
  const { agentId, followUps, run } = status;
  const [isOpen, setOpen] = useState(() => matchMedia('(min-width: 60rem)').matches);
  const [isComplete, setComplete] = useState(false);
  const [isClearing, setClearing] = useState(false);
  /** A message that was no longer queued when the user removed it. */
  const [missing, setMissing] = useState<string | null>(null);
  const remove = useCommand(agentId, (client, followUpId: string) =>
    client.removeFollowUp(agentId, followUpId),
  );
  const removeMessage = (followUpId: string) => {
    setMissing(null);
    remove.mutate(followUpId, { onSuccess: ({ removed }) => removed || setMissing(followUpId) });
  };
  const queued = followUps.filter(({ state }) => state === 'QUEUED').length;
  const scheduled = followUps.length - queued;
  const shown = isComplete ? followUps : followUps.slice(0, shownAtFirst);
  if (followUps.length === 0 && missing === null) return null;
  return (
    <section className="queue" aria-label="Queue">
      <header>
        <Button look="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <ExpandIcon />
          {summaryText(queued, scheduled)}
        </Button>
        {mayChange && queued > 0 && (
          <Button look="quiet" onClick={() => setClearing(true)}>
            Clear queue
          </Button>
        )}
      </header>
      {missing !== null && <MissingMessage {...{ run, missing }} onDismiss={() => setMissing(null)} />}
      {isOpen && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard.
        <ol tabIndex={0}>
          {shown.map((followUp) => (
            <QueuedMessage
              key={followUp.followUpId}
              agentId={agentId}
              followUp={followUp}
              isSteering={followUp.steer && isRunning(status)}
              problem={remove.variables === followUp.followUpId ? remove.error : null}
              isRemoving={remove.variables === followUp.followUpId && !remove.isError}
              onRemove={mayChange ? () => removeMessage(followUp.followUpId) : null}
            />
          ))}
        </ol>
      )}
      {isOpen && shown.length < followUps.length && (
        <Button look="quiet" onClick={() => setComplete(true)}>
          Show all {plural(followUps.length, 'message')}
        </Button>
      )}
      {isClearing && <ClearDialog {...{ agentId, queued, scheduled }} onClose={() => setClearing(false)} />}
    </section>
  );
}

interface MissingMessageProps {
  readonly run: AgentStatus['run'];
  readonly missing: string;
  readonly onDismiss: () => void;
}

/** Says why a message could not be removed. */
function MissingMessage({ run, missing, onDismiss }: MissingMessageProps) {
  return (
    <p className="queue-missing" role="status">
      {run?.followUpIds.includes(missing)
        ? 'The message was already delivered.'
        : 'The message was already delivered or removed.'}{' '}
      <Button look="quiet" onClick={onDismiss}>
        Dismiss
      </Button>
    </p>
  );
}

function summaryText(queued: number, scheduled: number): string {
  const texts = [queued > 0 && `${queued} queued`, scheduled > 0 && `${scheduled} scheduled`].filter(Boolean);
  return texts.length === 0 ? 'Queue is empty' : texts.join(', ');
}

/** A message shows three lines, which hold about this many characters on a phone. */
const shownCharacters = 120;

const isLong = ({ truncated, description }: PendingFollowUp): boolean =>
  truncated || description.length > shownCharacters || description.split('\n', 4).length > 3;

function QueuedMessage({
  agentId,
  followUp,
  isSteering,
  problem,
  isRemoving,
  onRemove,
}: {
  readonly agentId: AgentId;
  readonly followUp: PendingFollowUp;
  readonly isSteering: boolean;
  readonly problem: unknown;
  readonly isRemoving: boolean;
  readonly onRemove: (() => void) | null;
}) {
  const { followUpId, description, state, deliverAt, queuedAt } = followUp;
  const [isShown, setShown] = useState(false);
  const name = description.slice(0, 60) || followUpId;
  return (
    <li className="queued-message">
      <div>
        <p className="queued-text">{description || 'No text: tasks or settings only.'}</p>
        <p className="queued-facts wrap secondary">
          {state === 'DEFERRED' && deliverAt !== null ? (
            <span>
              scheduled for <Moment at={deliverAt} />, <Countdown to={deliverAt} />
            </span>
          ) : (
            <span>
              queued <Age since={queuedAt} /> ago
            </span>
          )}
          {isSteering && <span>for this turn</span>}
          {settingTexts(followUp).map((text) => (
            <span key={text}>{text}</span>
          ))}
          {followUp.truncated && <span>shortened</span>}
          {isLong(followUp) && (
            <Button look="quiet" aria-label={`Show full text: ${name}`} onClick={() => setShown(true)}>
              Show full text
            </Button>
          )}
        </p>
        <Problem error={problem} />
        {isShown && <MessageDialog {...{ agentId, followUpId }} onClose={() => setShown(false)} />}
      </div>
      {onRemove && (
        <Button look="quiet" disabled={isRemoving} aria-label={`Remove message: ${name}`} onClick={onRemove}>
          Remove
        </Button>
      )}
    </li>
  );
}

const settingTexts = (followUp: PendingFollowUp | FollowUp): string[] =>
  [
    followUp.attachmentIds.length > 0 && plural(followUp.attachmentIds.length, 'image'),
    followUp.agent && `persona ${followUp.agent}`,
    followUp.model && `model ${followUp.model}`,
    followUp.reasoningEffort && `effort ${followUp.reasoningEffort}`,
    followUp.serviceTier && `tier ${followUp.serviceTier}`,
    followUp.fastMode !== null && `fast mode ${followUp.fastMode ? 'on' : 'off'}`,
    followUp.outputSchema && 'output schema',
  ].filter((text): text is string => Boolean(text));

interface DialogProps {
  readonly agentId: AgentId;
  readonly onClose: () => void;
}

/** The status has only the beginning of a long message, so the dialog loads the whole one. */
function MessageDialog({ agentId, followUpId, onClose }: DialogProps & { readonly followUpId: string }) {
  const client = useClient();
  const { data, error } = useQuery({
    queryKey: ['follow-up', agentPage(agentId), followUpId],
    queryFn: ({ signal }) => client.followUp(agentId, followUpId, { signal }),
  });
  return (
    <Dialog title="Queued message" onClose={onClose} isWide>
      <Problem error={error} />
      {!data && !error && <p>Loading …</p>}
      {data && (
        <>
          <Markdown text={data.description} />
          <p className="queued-facts wrap secondary">{settingTexts(data).join(', ')}</p>
          {data.outputSchema !== '' && (
            // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard.
            <pre className="text-box" tabIndex={0}>
              <code>{data.outputSchema}</code>
            </pre>
          )}
        </>
      )}
    </Dialog>
  );
}

function ClearDialog({
  agentId,
  queued,
  scheduled,
  onClose,
}: DialogProps & { readonly queued: number; readonly scheduled: number }) {
  const clear = useCommand(agentId, (client) => client.clearFollowUps(agentId));
  return (
    <Dialog title="Clear queue" onClose={onClose}>
      <p>{plural(queued, 'queued message')} will be discarded, together with the tasks in them.</p>
      <p>
        {scheduled === 0
          ? 'No messages are scheduled.'
          : `${plural(scheduled, 'scheduled message')} will stay. Remove scheduled messages one by one.`}
      </p>
      <Problem error={clear.error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button
          look="danger"
          disabled={queued === 0 || clear.isPending}
          onClick={() => clear.mutate(undefined, { onSuccess: onClose })}
        >
          {queued === 0 ? 'Queue is empty' : `Clear ${plural(queued, 'message')}`}
        </Button>
      </DialogActions>
    </Dialog>
  );
}
