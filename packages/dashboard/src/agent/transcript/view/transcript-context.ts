import type { AgentId, MusterClient, Run } from '@muster/sdk';
import { createContext, useContext, useEffect, useSyncExternalStore } from 'react';

/** Shared by the rows of one transcript. */
export interface TranscriptTools {
  readonly agentId: AgentId;
  /** Whether rows link to entries and to other agents. */
  readonly isLinked: boolean;
  readonly expanded: ExpandedNames;
  readonly runDetails: RunDetails;
  /** Keeps the scroll position while a row expands or collapses. */
  readonly holdPosition: () => void;
  /** Loads the text of a message that was queued before the first loaded entry. */
  readonly findMessageText: (followUpId: string) => void;
}

export const TranscriptContext = createContext<TranscriptTools | null>(null);

export function useTranscript(): TranscriptTools {
  const tools = useContext(TranscriptContext);
  if (!tools) throw new Error('useTranscript needs a TranscriptContext above it');
  return tools;
}

class Listeners {
  readonly #listeners = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  protected notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** What is expanded, by name. It outlives the rows, which are unmounted while they are off screen. */
export class ExpandedNames extends Listeners {
  readonly #names = new Set<string>();

  has(name: string): boolean {
    return this.#names.has(name);
  }

  set(name: string, isExpanded: boolean): void {
    if (isExpanded) this.#names.add(name);
    else this.#names.delete(name);
    this.notify();
  }
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

const collectMs = 30;
const maxRuns = 100;

/** Ended runs, whose cost is not in the timeline. Loads the runs on the screen with one request. */
export class RunDetails extends Listeners {
  readonly #client: MusterClient;
  readonly #agentId: AgentId;
  readonly #runs = new Map<string, Run>();
  readonly #wanted = new Set<string>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(client: MusterClient, agentId: AgentId) {
    super();
    this.#client = client;
    this.#agentId = agentId;
  }

  get(runId: string): Run | undefined {
    return this.#runs.get(runId);
  }

  want(runId: string): void {
    if (this.#runs.has(runId)) return;
    this.#wanted.add(runId);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      // Without the details the row only lacks the cost.
      this.#load().catch(() => {});
    }, collectMs);
  }

  async #load(): Promise<void> {
    const numbers = [...this.#wanted].map(Number);
    this.#wanted.clear();
    const newest = Math.max(...numbers);
    const limit = Math.min(maxRuns, newest - Math.min(...numbers) + 1);
    const { runs } = await this.#client.runs(this.#agentId, { before: newest + 1, limit });
    for (const run of runs) if (run.state === 'ENDED') this.#runs.set(run.runId, run);
    this.notify();
  }
}

export function useRunDetails(runId: string): Run | undefined {
  const { runDetails } = useTranscript();
  useEffect(() => runDetails.want(runId), [runDetails, runId]);
  return useSyncExternalStore(runDetails.subscribe, () => runDetails.get(runId));
}
