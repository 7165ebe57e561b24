import type { AgentStatus, MusterClient, PendingFollowUp } from '@muster/sdk';
import { isThreadTask } from '@muster/sdk/contract';
import { useEffect, useRef, useState } from 'react';
import { isRunning } from '../model/message-draft.ts';
import { hasSettings, isOutdated, movedTo, queuedIds, replacing } from '../model/queue.ts';
import { useCommand } from './use-agent.ts';

/** How a message reaches the agent before its turn: in the turn that is running, or in the next one after an interrupt. */
export type SendNow = 'steer' | 'interrupt' | 'due';

type Change =
  | { readonly kind: 'remove'; readonly followUp: PendingFollowUp }
  | { readonly kind: 'order'; readonly ids: readonly string[] }
  | { readonly kind: 'send'; readonly followUp: PendingFollowUp; readonly how: SendNow };

const changedText = 'Nothing was moved: the queue has changed. Look at it again.';

/** Changes of the queue. What a run took meanwhile is reported, and nothing else happens. */
export function useQueueCommands(status: AgentStatus) {
  const { agentId, followUps, run } = status;
  const [notice, setNotice] = useState('');
  const { listRef, keepFocus } = useKeptFocus(followUps);
  const goneText = (followUpId: string) =>
    run?.followUpIds.includes(followUpId)
      ? 'The message was already delivered.'
      : 'The message was already delivered or removed.';

  const change = useCommand(agentId, async (client, wanted: Change): Promise<string> => {
    if (wanted.kind === 'remove') {
      const { removed } = await client.removeFollowUp(agentId, wanted.followUp.followUpId);
      return removed ? '' : goneText(wanted.followUp.followUpId);
    }
    try {
      if (wanted.kind === 'order') await client.orderQueue(agentId, wanted.ids);
      else await sendNow(client, status, wanted.followUp, wanted.how);
      return '';
    } catch (error) {
      if (isOutdated(error, 'QUEUE_CHANGED')) return changedText;
      if (isOutdated(error, 'FOLLOW_UP_DELIVERED')) return 'The message was already delivered.';
      throw error;
    }
  });
  const start = (wanted: Change) => {
    setNotice('');
    change.mutate(wanted, { onSuccess: setNotice });
  };
  return {
    notice,
    listRef,
    error: change.error,
    isBusy: change.isPending,
    dismiss: () => setNotice(''),
    remove: (followUp: PendingFollowUp) => start({ kind: 'remove', followUp }),
    /** Of a message whose buttons have the focus; null of one that was dragged. */
    order: (focused: PendingFollowUp | null, ids: readonly string[] | null) => {
      if (ids === null || change.isPending) return;
      if (focused) keepFocus(focused.followUpId);
      start({ kind: 'order', ids });
    },
    sendNow: (followUp: PendingFollowUp, how: SendNow) => start({ kind: 'send', followUp, how }),
  };
}

async function sendNow(
  client: MusterClient,
  status: AgentStatus,
  followUp: PendingFollowUp,
  how: SendNow,
): Promise<void> {
  const { agentId, followUps, run } = status;
  const { followUpId } = followUp;
  if (how === 'interrupt') {
    const first = movedTo(queuedIds(followUps), followUpId, 0);
    if (first) await client.orderQueue(agentId, first);
    // What is queued runs next, this message first.
    if (run) await client.stopTurn(agentId, { runId: run.runId, mode: 'STOP_TURN_MODE_INTERRUPT' });
    return;
  }
  const whole = await client.followUp(agentId, followUpId);
  if (whole.tasks.some(isThreadTask))
    throw new Error('A review can’t be added to a running turn. Interrupt the turn instead.');
  const steer = isRunning(status) && !hasSettings(whole);
  await client.queue(agentId, replacing(whole, { deliverAt: undefined, steer: steer || undefined }));
}

/** A message that moves is another element of the list: its button gets the focus again. */
function useKeptFocus(followUps: AgentStatus['followUps']) {
  const listRef = useRef<HTMLOListElement>(null);
  const kept = useRef<{ readonly id: string; readonly label: string } | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the order has changed.
  useEffect(() => {
    const { current } = kept;
    if (!current || !listRef.current) return;
    const item = listRef.current.querySelector(`[data-id="${CSS.escape(current.id)}"]`);
    const button = item?.querySelector<HTMLElement>(`[data-move="${current.label}"]:not(:disabled)`);
    (button ?? item?.querySelector<HTMLElement>('[data-move]:not(:disabled)'))?.focus();
    kept.current = null;
  }, [followUps]);
  const keepFocus = (id: string) => {
    const label = (document.activeElement as HTMLElement | null)?.dataset.move ?? '';
    kept.current = { id, label };
  };
  return { listRef, keepFocus };
}
