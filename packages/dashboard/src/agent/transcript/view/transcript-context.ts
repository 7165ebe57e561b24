import type { AgentId, MusterClient, Run } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { createContext, useContext, useSyncExternalStore } from 'react';

export interface TranscriptTools {
  readonly agentId: AgentId;
  readonly client: MusterClient;
  /** Whether rows link to entries and to other agents. */
  readonly isLinked: boolean;
  readonly expanded: ExpandedNames;
  /** Keeps the scroll position while a row expands or collapses. */
  readonly holdPosition: () => void;
  /** Loads the text of a message that was queued before the first loaded entry. */
  readonly findMessageText: (followUpId: string) => void;
}

export const TranscriptContext = createContext<TranscriptTools | null>(null);

/** The question that the agent waits for, which is shown with the form for the answer; empty without one. */
export const OpenQuestionContext = createContext('');

export function useTranscript(): TranscriptTools {
  const tools = useContext(TranscriptContext);
  if (!tools) throw new Error('useTranscript needs a TranscriptContext above it');
  return tools;
}

/** What is expanded, by name. It outlives the rows, which are unmounted while they are off screen. */
export class ExpandedNames {
  readonly #names = new Set<string>();
  readonly #listeners = new Set<() => void>();

  has(name: string): boolean {
    return this.#names.has(name);
  }

  set(name: string, isExpanded: boolean): void {
    if (isExpanded) this.#names.add(name);
    else this.#names.delete(name);
    for (const listener of this.#listeners) listener();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
}

/** The name must be unique in the transcript. */
export function useExpanded(name: string): readonly [isExpanded: boolean, toggle: () => void] {
  const { expanded, holdPosition } = useTranscript();
  const isExpanded = useSyncExternalStore(expanded.subscribe, () => expanded.has(name));
  const toggle = () => {
    holdPosition();
    expanded.set(name, !isExpanded);
  };
  return [isExpanded, toggle];
}

const runsPerRequest = 20;

/** An ended run, whose cost is not in the timeline. Rows of neighboring runs share a request. */
export function useEndedRun(runId: string): Run | undefined {
  const { agentId, client } = useTranscript();
  const page = Math.floor(Number(runId) / runsPerRequest);
  const { data } = useQuery({
    queryKey: ['ended-runs', agentPage(agentId), page],
    queryFn: async ({ signal }) => {
      const before = (page + 1) * runsPerRequest;
      const { runs } = await client.runs(agentId, { before, limit: runsPerRequest, signal });
      return new Map(runs.filter(({ state }) => state === 'ENDED').map((run) => [run.runId, run]));
    },
    staleTime: ({ state }) => (state.data?.has(runId) ? Number.POSITIVE_INFINITY : 0),
  });
  return data?.get(runId);
}
