import type { AgentId } from '@muster/sdk';
import { Button } from '../parts/button.tsx';
import { Dialog, DialogActions } from '../parts/dialog.tsx';
import { plural } from '../parts/model/text.ts';
import { Problem } from '../parts/problem.tsx';
import { useCommand } from './use-command.ts';

/** Asks before the queue is emptied, and says what stays. */
export function ClearDialog({
  agentId,
  queued,
  deferred,
  onClose,
}: {
  readonly agentId: AgentId;
  readonly queued: number;
  readonly deferred: number;
  readonly onClose: () => void;
}) {
  const clear = useCommand(agentId, (client) => client.clearFollowUps(agentId));
  return (
    <Dialog title="Clear the queue" onClose={onClose}>
      <p>
        {queued === 1 ? 'The queued message is' : `All ${queued} queued messages are`} discarded and never
        delivered, and so are the tasks that would have come with them.
      </p>
      <p>
        {deferred === 0
          ? 'Nothing is deferred.'
          : `${plural(deferred, 'deferred message')} ${deferred === 1 ? 'stays' : 'stay'}: remove ${deferred === 1 ? 'it' : 'them'} one by one.`}
      </p>
      <Problem error={clear.error} />
      <DialogActions>
        <Button onClick={onClose}>Keep</Button>
        <Button
          look="danger"
          disabled={queued === 0 || clear.isPending}
          onClick={() => clear.mutate(undefined, { onSuccess: onClose })}
        >
          {queued === 0 ? 'Nothing is queued any more' : `Clear ${plural(queued, 'message')}`}
        </Button>
      </DialogActions>
    </Dialog>
  );
}
