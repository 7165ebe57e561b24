import type { AgentId, AgentStatus, PendingFollowUp } from '@muster/sdk';
import { useState } from 'react';
import { Button, ExpandIcon } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { plural } from '../../parts/model/text.ts';
import { Problem } from '../../parts/problem.tsx';
import { isRunning } from '../model/message-draft.ts';
import { movedTo, queuedIds } from '../model/queue.ts';
import { EditDialog, MessageDialog } from './queue-dialogs.tsx';
import { QueuedMessage } from './queued-message.tsx';
import { useCommand } from './use-agent.ts';
import { useQueueCommands } from './use-queue.ts';

/** More messages than this are shown on request. */
const shownAtFirst = 30;

interface QueueProps {
  readonly status: AgentStatus;
  readonly mayChange: boolean;
}

/** How many messages wait; opens the queue. */
export function QueueToggle({
  followUps,
  isOpen,
  onToggle,
}: Pick<AgentStatus, 'followUps'> & { readonly isOpen: boolean; readonly onToggle: () => void }) {
  const queued = queuedIds(followUps).length;
  const scheduled = followUps.length - queued;
  const texts = [
    ...(queued > 0 ? [`${queued} queued`] : []),
    ...(scheduled > 0 ? [`${scheduled} scheduled`] : []),
  ];
  if (texts.length === 0) return null;
  return (
    <Button
      look="quiet"
      className="queue-toggle"
      aria-label={texts.join(', ')}
      aria-expanded={isOpen}
      onClick={onToggle}
    >
      <ExpandIcon />
      {/* A narrow window shows only the first of two counts. */}
      <span className="queue-toggle-long">{texts.join(', ')}</span>
      <span className="queue-toggle-short">{texts[0]}</span>
    </Button>
  );
}

/** Undelivered messages, in the order in which the agent gets them. */
export function Queue({ status, mayChange }: QueueProps) {
  const { agentId, followUps } = status;
  const [isComplete, setComplete] = useState(false);
  const [isClearing, setClearing] = useState(false);
  const [shown, setShown] = useState<PendingFollowUp | null>(null);
  const [edited, setEdited] = useState<PendingFollowUp | null>(null);
  const commands = useQueueCommands(status);
  const ids = queuedIds(followUps);
  const listed = isComplete ? followUps : followUps.slice(0, shownAtFirst);
  const hasMore = commands.notice !== '' || commands.error !== null || shown !== null || edited !== null;
  if (followUps.length === 0 && !hasMore) return null;
  return (
    <section className="queue" aria-label="Queue">
      {commands.notice !== '' && (
        <p className="queue-missing" role="status">
          {commands.notice}{' '}
          <Button look="quiet" onClick={commands.dismiss}>
            Dismiss
          </Button>
        </p>
      )}
      <Problem error={commands.error} />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard. */}
      <ol tabIndex={0} ref={commands.listRef} aria-label="Queued messages">
        {listed.map((followUp) => (
          <QueuedMessage
            key={followUp.followUpId}
            followUp={followUp}
            place={ids.indexOf(followUp.followUpId)}
            count={ids.length}
            isTurnRunning={isRunning(status)}
            isBusy={commands.isBusy}
            mayChange={mayChange}
            onShow={() => setShown(followUp)}
            onEdit={() => setEdited(followUp)}
            onRemove={() => commands.remove(followUp)}
            onMove={(place) => commands.order(followUp, movedTo(ids, followUp.followUpId, place))}
            onDrop={(id) => commands.order(null, movedTo(ids, id, ids.indexOf(followUp.followUpId)))}
            onSendNow={(how) => commands.sendNow(followUp, how)}
          />
        ))}
        <li className="queue-end">
          {listed.length < followUps.length && (
            <Button look="quiet" onClick={() => setComplete(true)}>
              Show all {plural(followUps.length, 'message')}
            </Button>
          )}
          {mayChange && ids.length > 0 && (
            <Button look="quiet" onClick={() => setClearing(true)}>
              Clear queue
            </Button>
          )}
        </li>
      </ol>
      {isClearing && (
        <ClearDialog
          agentId={agentId}
          queued={ids.length}
          scheduled={followUps.length - ids.length}
          onClose={() => setClearing(false)}
        />
      )}
      {shown && (
        <MessageDialog agentId={agentId} followUpId={shown.followUpId} onClose={() => setShown(null)} />
      )}
      {edited && <EditDialog status={status} followUp={edited} onClose={() => setEdited(null)} />}
    </section>
  );
}

function ClearDialog({
  agentId,
  queued,
  scheduled,
  onClose,
}: {
  readonly agentId: AgentId;
  readonly queued: number;
  readonly scheduled: number;
  readonly onClose: () => void;
}) {
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
