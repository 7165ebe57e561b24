import type { AgentStatus } from '@muster/sdk';
import { agentPage, clock } from '@muster/sdk/contract';
import { useState } from 'react';
import { usePerson } from '../session/session.ts';
import { type Draft, drafts, isSendable } from './draft.ts';
import { type MessageProblems, messageProblems } from './message-problems.ts';
import { useCommand } from './use-command.ts';

export interface Message {
  readonly draft: Draft;
  readonly set: (part: Partial<Draft>) => void;
  readonly isSendable: boolean;
  readonly isSending: boolean;
  readonly problems: MessageProblems;
  /** What became of the last one; empty once the next is begun. */
  readonly said: string;
  readonly send: (then: { onTaken: () => void; onRefused: (problems: MessageProblems) => void }) => void;
}

/** The message that is being written to an agent. It is kept while one looks at other pages, and sent once. */
export function useMessage(status: AgentStatus): Message {
  const { agentId } = status;
  const place = `${usePerson()} ${agentPage(agentId)}`;
  const [draft, setDraft] = useState(() => drafts.of(place));
  const [said, setSaid] = useState('');
  const queue = useCommand(agentId, async (client, sent: Draft) => {
    await client.queue(agentId, drafts.toSend(place));
    // Here, and not in a callback of the page: whoever has left it meanwhile has sent the message too.
    drafts.taken(place, sent);
  });
  return {
    draft,
    set: (part) => {
      const next = { ...draft, ...part };
      drafts.keep(place, next);
      setDraft(next);
      setSaid('');
    },
    isSendable: isSendable(draft),
    isSending: queue.isPending,
    problems: messageProblems(queue.error),
    said,
    send: ({ onTaken, onRefused }) => {
      if (!isSendable(draft) || queue.isPending) return;
      queue.mutate(draft, {
        onSuccess: () => {
          setDraft(drafts.of(place));
          setSaid(takenWords(status, draft));
          onTaken();
        },
        onError: (error) => onRefused(messageProblems(error)),
      });
    },
  };
}

const isAtWork = ({ phase }: AgentStatus): boolean => phase === 'PHASE_RUNNING';
const timeOf = ({ deliverAt }: Draft): string => clock(new Date(deliverAt).toISOString());

function takenWords(status: AgentStatus, draft: Draft): string {
  if (draft.deliverAt) return `Deferred until ${timeOf(draft)}.`;
  return isAtWork(status) && !draft.isPreempting ? 'Queued.' : 'Sent.';
}

/** When a message that is sent now will reach the agent. */
export function whenWords(status: AgentStatus, draft: Draft): string {
  if (draft.deliverAt) return `It comes at ${timeOf(draft)}.`;
  if (draft.isPreempting) return 'It runs next.';
  if (isAtWork(status)) return 'It waits in the queue until this turn ends.';
  return status.phase === 'PHASE_PENDING' && status.phaseReason !== 'CHILDREN'
    ? 'It waits in the queue.'
    : 'It starts a turn at once.';
}
