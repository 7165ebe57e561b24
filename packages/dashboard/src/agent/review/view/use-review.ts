import type { AgentId, AgentStatus } from '@muster/sdk';
import { agentPage, type Thread } from '@muster/sdk/contract';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { createContext, type RefObject, useContext, useEffect, useRef, useSyncExternalStore } from 'react';
import { mayCommand } from '../../../live/model/allowed-actions.ts';
import { useClient, usePerson, useSignedIn } from '../../../session/session.ts';
import { threadsKey } from '../../view/use-agent.ts';
import { type ReviewDraft, ReviewDrafts, reviewOf, setReply, withoutReview } from '../model/review-draft.ts';

const drafts = new ReviewDrafts(sessionStorage);
const noThreads: readonly Thread[] = [];

/** The review of one agent's changes: the threads, and what the person has not sent yet. */
export interface Review {
  readonly agentId: AgentId;
  readonly threads: readonly Thread[];
  readonly error: unknown;
  readonly draft: ReviewDraft;
  readonly change: (change: (draft: ReviewDraft) => ReviewDraft) => void;
  readonly mayComment: boolean;
  /** The form that the person opened last; it gets the focus when it appears. */
  readonly opened: RefObject<string>;
}

export const ReviewContext = createContext<Review | null>(null);

export function useReviewContext(): Review {
  const review = useContext(ReviewContext);
  if (!review) throw new Error('useReviewContext needs a ReviewContext above it');
  return review;
}

export function useReview(status: AgentStatus): Review {
  const { agentId } = status;
  const { caller } = useSignedIn();
  const { threads, error } = useThreads(status);
  const key = useDraftKey(agentId);
  const draft = useSyncExternalStore(drafts.subscribe, () => drafts.get(key));
  const opened = useRef('');
  return {
    agentId,
    threads,
    error,
    draft,
    change: (change) => drafts.change(key, change),
    mayComment: mayCommand(caller, agentId),
    opened,
  };
}

export const useDraftKey = (agentId: AgentId): string => `${usePerson()} ${agentPage(agentId)}`;

/** Loaded again when a timeline entry reports a change of threads, and when the agent's phase or a change request changes. */
function useThreads({ agentId, phaseReason, runCount, changeRequests }: AgentStatus) {
  const client = useClient();
  const queryClient = useQueryClient();
  const queryKey = threadsKey(agentPage(agentId));
  const requests = JSON.stringify(changeRequests.map(({ review }) => review));
  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of any of these is a reason to load them again.
  useEffect(() => {
    void queryClient.invalidateQueries({ queryKey });
  }, [phaseReason, runCount, requests]);
  const { data = noThreads, error } = useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      const threads: Thread[] = [];
      for await (const thread of client.threads(agentId, {}, { signal })) threads.push(thread);
      return threads;
    },
  });
  return { threads: data, error };
}

/** Puts changed threads into the loaded list. */
function useUpdateThreads(agentId: AgentId) {
  const queryClient = useQueryClient();
  return (changed: readonly Thread[]) => {
    const queryKey = threadsKey(agentPage(agentId));
    const byId = new Map(changed.map((thread) => [thread.threadId, thread]));
    queryClient.setQueryData<Thread[]>(queryKey, (known = []) => {
      const ids = new Set(known.map(({ threadId }) => threadId));
      const updated = known.map((thread) => byId.get(thread.threadId) ?? thread);
      return [...updated, ...changed.filter(({ threadId }) => !ids.has(threadId))];
    });
    void queryClient.invalidateQueries({ queryKey });
  };
}

/** Sends the draft as one review. */
export function useSendReview({ agentId, draft }: Review) {
  const client = useClient();
  const key = useDraftKey(agentId);
  const update = useUpdateThreads(agentId);
  return useMutation({
    mutationFn: () => {
      const review = reviewOf(draft);
      return client.createReview(agentId, { ...review, followUpId: drafts.sent.idFor(key, review) });
    },
    onSuccess: ({ threads }) => {
      drafts.sent.accepted(key);
      drafts.change(key, withoutReview);
      update(threads);
    },
  });
}

export function useReply(agentId: AgentId, threadId: string) {
  const client = useClient();
  const key = useDraftKey(agentId);
  const update = useUpdateThreads(agentId);
  return useMutation({
    mutationFn: (body: string) => {
      const followUpId = drafts.sent.idFor(`${key} ${threadId}`, body);
      return client.replyToThread(agentId, threadId, body, { followUpId });
    },
    onSuccess: ({ thread }) => {
      drafts.sent.accepted(`${key} ${threadId}`);
      drafts.change(key, (draft) => setReply(draft, threadId, undefined));
      update([thread]);
    },
  });
}

export function useResolve(agentId: AgentId, threadId: string) {
  const client = useClient();
  const update = useUpdateThreads(agentId);
  return useMutation({
    mutationFn: (isResolved: boolean) => client.resolveThread(agentId, threadId, isResolved),
    onSuccess: ({ thread }) => update([thread]),
  });
}
