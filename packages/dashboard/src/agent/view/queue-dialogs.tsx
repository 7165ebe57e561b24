import type { AgentId, AgentStatus, PendingFollowUp } from '@muster/sdk';
import { agentPage, type FollowUp, isThreadTask } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { type KeyboardEvent, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/field.tsx';
import { Markdown } from '../../parts/markdown.tsx';
import { Problem } from '../../parts/problem.tsx';
import { useClient } from '../../session/session.ts';
import { isOutdated, queuedIds, replacing, unsavedTexts } from '../model/queue.ts';
import { settingTexts } from './queued-message.tsx';
import { useCommand } from './use-agent.ts';

interface DialogProps {
  readonly agentId: AgentId;
  readonly followUpId: string;
  readonly onClose: () => void;
}

/** The status has only the beginning of a long message, so the dialogs load the whole one. */
function useWhole(agentId: AgentId, followUpId: string) {
  const client = useClient();
  return useQuery({
    queryKey: ['follow-up', agentPage(agentId), followUpId],
    queryFn: ({ signal }) => client.followUp(agentId, followUpId, { signal }),
    staleTime: 0,
  });
}

export function MessageDialog({ agentId, followUpId, onClose }: DialogProps) {
  const { data, error } = useWhole(agentId, followUpId);
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

interface EditDialogProps {
  readonly status: AgentStatus;
  readonly followUp: PendingFollowUp;
  readonly onClose: () => void;
}

/** Changes the text of a message. The agent may get the old one meanwhile: then the new text can be sent as a message. */
export function EditDialog({ status, followUp: { followUpId }, onClose }: EditDialogProps) {
  const { agentId } = status;
  const { data, error, isFetchedAfterMount } = useWhole(agentId, followUpId);
  return (
    <Dialog title="Edit message" onClose={onClose} isWide>
      <Problem error={error} />
      {!(data && isFetchedAfterMount) && !error && <p>Loading …</p>}
      {data && isFetchedAfterMount && <EditForm {...{ status, onClose }} followUp={data} />}
    </Dialog>
  );
}

function useEdit(status: AgentStatus, followUp: FollowUp, onClose: () => void) {
  const { agentId, followUps } = status;
  const { followUpId, description } = followUp;
  const [text, setText] = useState(unsavedTexts.get(followUpId) ?? description);
  const write = (next: string) => {
    setText(next);
    unsavedTexts.set(followUpId, next);
  };
  const forget = () => {
    unsavedTexts.delete(followUpId);
    onClose();
  };
  const save = useCommand(agentId, async (client) => {
    await client.queue(agentId, replacing(followUp, { description: text.trim() }));
    // A message that is replaced comes last. If the queue has changed meanwhile, it stays there.
    const ids = queuedIds(followUps);
    if (ids.at(-1) === followUpId || !ids.includes(followUpId)) return;
    await client.orderQueue(agentId, ids).catch((problem: unknown) => {
      if (!isOutdated(problem, 'QUEUE_CHANGED')) throw problem;
    });
  });
  const sendNew = useCommand(agentId, (client) => client.queue(agentId, { description: text.trim() }));
  const isDelivered =
    isOutdated(save.error, 'FOLLOW_UP_DELIVERED') || !followUps.some((one) => one.followUpId === followUpId);
  const command = isDelivered ? sendNew : save;
  const submit = () => {
    if (text.trim() !== '' && !command.isPending) command.mutate(undefined, { onSuccess: forget });
  };
  return {
    text,
    write,
    cancel: forget,
    submit,
    isDelivered,
    isPending: command.isPending,
    error: command.error,
  };
}

function EditForm({
  status,
  followUp,
  onClose,
}: Omit<EditDialogProps, 'followUp'> & { readonly followUp: FollowUp }) {
  const isReview = followUp.tasks.some(isThreadTask);
  const { text, write, cancel, submit, isDelivered, isPending, error } = useEdit(status, followUp, onClose);
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      onKeyDown={(event: KeyboardEvent) => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit();
      }}
    >
      <TextField
        label="Message"
        hint={settingTexts(followUp).join(', ')}
        rows={8}
        value={text}
        onChange={write}
        disabled={isReview}
        data-autofocus
      />
      {isReview && <p>This message is a review. Change its comments in Changes.</p>}
      {isDelivered && (
        <p className="queue-missing" role="status">
          The agent got this message before your change, or somebody removed it. Your text is kept: you can
          send it as a new message.
        </p>
      )}
      <Problem error={error} />
      <DialogActions>
        <Button onClick={cancel}>Cancel</Button>
        <Button
          type="submit"
          look="primary"
          disabled={
            isReview || text.trim() === '' || isPending || (!isDelivered && text === followUp.description)
          }
        >
          {isDelivered ? 'Send as new message' : 'Save'}
        </Button>
      </DialogActions>
    </form>
  );
}
