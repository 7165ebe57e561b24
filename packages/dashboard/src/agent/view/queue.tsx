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

/** Undelivered messages, folded behind their count. */
export function Queue({ status, mayChange }: { readonly status: AgentStatus; readonly mayChange: boolean }) {
  const { agentId, followUps } = status;
  const [isOpen, setOpen] = useState(false);
  const [isComplete, setComplete] = useState(false);
  const [isClearing, setClearing] = useState(false);
  const [shown, setShown] = useState<PendingFollowUp | null>(null);
  const [edited, setEdited] = useState<PendingFollowUp | null>(null);
  const commands = useQueueCommands(status);
  const ids = queuedIds(followUps);
  const scheduled = followUps.length - ids.length;
  const listed = isComplete ? followUps : followUps.slice(0, shownAtFirst);
  if (followUps.length === 0 && commands.notice === '' && !edited && !shown) return null;
  return (
    <section className="queue" aria-label="Queue" data-open={isOpen}>
      <header>
        <Button look="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <ExpandIcon />
          {summaryText(ids.length, scheduled)}
        </Button>
        {mayChange && isOpen && ids.length > 0 && (
          <Button look="quiet" onClick={() => setClearing(true)}>
            Clear queue
          </Button>
        )}
      </header>
      {commands.notice !== '' && (
        <p className="queue-missing" role="status">
          {commands.notice}{' '}
          <Button look="quiet" onClick={commands.dismiss}>
            Dismiss
          </Button>
        </p>
      )}
      <Problem error={commands.error} />
      {isOpen && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable area must be reachable by keyboard.
        <ol tabIndex={0} ref={commands.listRef}>
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
        </ol>
      )}
      {isOpen && listed.length < followUps.length && (
        <Button look="quiet" onClick={() => setComplete(true)}>
          Show all {plural(followUps.length, 'message')}
        </Button>
      )}
      {isClearing && (
        <ClearDialog {...{ agentId, scheduled }} queued={ids.length} onClose={() => setClearing(false)} />
      )}
      {shown && (
        <MessageDialog agentId={agentId} followUpId={shown.followUpId} onClose={() => setShown(null)} />
      )}
      {edited && <EditDialog status={status} followUp={edited} onClose={() => setEdited(null)} />}
    </section>
  );
}

function summaryText(queued: number, scheduled: number): string {
  const texts = [queued > 0 && `${queued} queued`, scheduled > 0 && `${scheduled} scheduled`].filter(Boolean);
  return texts.length === 0 ? 'Queue is empty' : texts.join(', ');
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
