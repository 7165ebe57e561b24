import type { AgentId, AgentStatus, PendingFollowUp } from '@muster/sdk';
import { useState } from 'react';
import { Button } from '../parts/button.tsx';
import { plural } from '../parts/model/text.ts';
import { Problem } from '../parts/problem.tsx';
import { Age, Countdown, Moment } from '../parts/times.tsx';
import { ClearDialog } from './clear-dialog.tsx';
import { QueuedMessageDialog, settingWords } from './queued-message-dialog.tsx';
import { useCommand } from './use-command.ts';
import './queue.css';

/** A long queue is shown when somebody asks for it. */
const shownAtFirst = 30;

/** The messages that wait for the agent, in the order in which it gets them. */
export function Queue({
  status: { agentId, followUps, run },
  mayChange,
}: {
  readonly status: AgentStatus;
  readonly mayChange: boolean;
}) {
  const [isOpen, setOpen] = useState(() => matchMedia('(min-width: 60rem)').matches);
  const [isWhole, setWhole] = useState(false);
  const [isClearing, setClearing] = useState(false);
  /** One that was taken out of the list and turned out not to be in it any more. */
  const [missed, setMissed] = useState<string | null>(null);
  const remove = useCommand(agentId, (client, followUpId: string) =>
    client.removeFollowUp(agentId, followUpId),
  );
  const take = (followUpId: string) => {
    setMissed(null);
    remove.mutate(followUpId, { onSuccess: ({ removed }) => removed || setMissed(followUpId) });
  };
  const queued = followUps.filter(({ state }) => state === 'QUEUED').length;
  const deferred = followUps.length - queued;
  const shown = isWhole ? followUps : followUps.slice(0, shownAtFirst);
  if (followUps.length === 0 && missed === null) return null;
  return (
    <section className="queue" aria-label="Queue">
      <header>
        <Button look="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
          {queueWords(queued, deferred)}
        </Button>
        {mayChange && queued > 0 && (
          <Button look="quiet" onClick={() => setClearing(true)}>
            Clear …
          </Button>
        )}
      </header>
      {missed !== null && (
        <p className="queue-missed" role="status">
          {run?.followUpIds.includes(missed)
            ? 'It was already delivered.'
            : 'It is no longer in the queue: it was delivered, or somebody took it out.'}{' '}
          <Button look="quiet" onClick={() => setMissed(null)}>
            Good
          </Button>
        </p>
      )}
      {isOpen && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached from the keyboard.
        <ol tabIndex={0}>
          {shown.map((followUp) => (
            <QueuedMessage
              key={followUp.followUpId}
              agentId={agentId}
              followUp={followUp}
              problem={remove.variables === followUp.followUpId ? remove.error : null}
              isLeaving={remove.variables === followUp.followUpId && !remove.isError}
              onRemove={mayChange ? () => take(followUp.followUpId) : null}
            />
          ))}
        </ol>
      )}
      {isOpen && shown.length < followUps.length && (
        <Button look="quiet" onClick={() => setWhole(true)}>
          Show all {plural(followUps.length, 'message')}
        </Button>
      )}
      {isClearing && <ClearDialog {...{ agentId, queued, deferred }} onClose={() => setClearing(false)} />}
    </section>
  );
}

function queueWords(queued: number, deferred: number): string {
  const words = [queued > 0 && `${queued} queued`, deferred > 0 && `${deferred} deferred`].filter(Boolean);
  return words.length === 0 ? 'Nothing is queued' : words.join(', ');
}

/** Three lines of a message are shown, and of those this many characters fit on the page of a phone. */
const shownCharacters = 120;

const isLong = ({ truncated, description }: PendingFollowUp): boolean =>
  truncated || description.length > shownCharacters || description.split('\n', 4).length > 3;

function QueuedMessage({
  agentId,
  followUp,
  problem,
  isLeaving,
  onRemove,
}: {
  readonly agentId: AgentId;
  readonly followUp: PendingFollowUp;
  readonly problem: unknown;
  /** It was taken out, and the page has yet to learn that. */
  readonly isLeaving: boolean;
  readonly onRemove: (() => void) | null;
}) {
  const { followUpId, description, state, deliverAt, queuedAt } = followUp;
  const settings = settingWords(followUp);
  const [isShown, setShown] = useState(false);
  return (
    <li className="queued-message" data-state={state}>
      <div>
        <p className="queued-text">{description || 'No words: tasks or settings only.'}</p>
        <p className="queued-facts">
          {state === 'DEFERRED' && deliverAt !== null ? (
            <span>
              deferred: comes at <Moment at={deliverAt} />, <Countdown to={deliverAt} />
            </span>
          ) : (
            <span>
              queued <Age since={queuedAt} /> ago
            </span>
          )}
          {settings.map((words) => (
            <span key={words}>{words}</span>
          ))}
          {followUp.truncated && <span>shortened</span>}
          {isLong(followUp) && (
            <Button
              look="quiet"
              aria-label={`Show the full text: ${description.slice(0, 60) || followUpId}`}
              onClick={() => setShown(true)}
            >
              Show full text
            </Button>
          )}
        </p>
        <Problem error={problem} />
        {isShown && <QueuedMessageDialog {...{ agentId, followUpId }} onClose={() => setShown(false)} />}
      </div>
      {onRemove && (
        <Button
          look="quiet"
          disabled={isLeaving}
          aria-label={`Remove the message: ${description.slice(0, 60) || followUpId}`}
          onClick={onRemove}
        >
          Remove
        </Button>
      )}
    </li>
  );
}
