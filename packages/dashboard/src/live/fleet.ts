import type { AgentEntry, MusterClient } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { createContext, useCallback, useContext, useSyncExternalStore } from 'react';
import { Listeners } from '../parts/model/listeners.ts';
import { connection } from '../session/connection.ts';
import { reportError } from '../session/session.ts';
import { type Mark, Marks, takeStoredMarks } from './marks.ts';
import { isOwn, type Owner } from './model/allowed-actions.ts';
import { attentionOf, type EndedWindow, endedSinceOf, isSeen, needsPerson } from './model/attention.ts';
import { type DescendantTotals, TreeTotals } from './model/tree-totals.ts';

/** Every agent that the caller may see. */
interface FleetView {
  /** By the path of the agent's page. */
  readonly agents: ReadonlyMap<string, AgentEntry>;
  /** False while the stream still sends the existing agents. */
  readonly isLoaded: boolean;
  readonly error: unknown;
}

/** While thousands of agents load, rendering every frame would only slow the loading down. The first are shown immediately. */
const loadingMs = 150;
const firstEntries = 60;
/** A hidden page has no animation frames, and a page may be hidden while it waits for one. */
const noFrameMs = 250;

/**
 * The page's only list stream. Changes are batched and subscribers notified once per frame, so that a busy fleet costs
 * one rendering per frame. A component that shows one agent watches that agent; the whole map is copied only for
 * subscribers that ask for the view.
 */
export class Fleet {
  readonly #client: MusterClient;
  readonly #caller: Owner;
  readonly #marks: Marks;
  readonly #needingCaller = new Set<string>();
  readonly #agents = new Map<string, AgentEntry>();
  readonly #treeTotals = new TreeTotals();
  readonly #listeners = new Listeners();
  readonly subscribe = this.#listeners.subscribe;
  readonly #watchers = new Map<string, Set<() => void>>();
  readonly #changed = new Set<string>();
  #view: FleetView | null = null;
  #endedWindow: EndedWindow = '7d';
  #stream: AbortController | null = null;
  #isLoaded = false;
  #error: unknown = null;
  #isNotifyDue = false;
  #hasNotified = false;

  constructor(client: MusterClient, caller: Owner) {
    this.#client = client;
    this.#caller = caller;
    this.#marks = new Marks(client);
  }

  /** Follows the list until the returned function is called. */
  start(): () => void {
    this.#open();
    document.addEventListener('visibilitychange', this.#marks.flush);
    return () => {
      document.removeEventListener('visibilitychange', this.#marks.flush);
      this.#stream?.abort();
      this.#stream = null;
      connection.restored('listStream');
    };
  }

  /** How many of the person's own agents need the person. */
  readonly needingCaller = (): number => this.#needingCaller.size;

  /** Shown immediately, also before the service has it. */
  mark(marks: Iterable<readonly [page: string, Mark]>): void {
    for (const [page, mark] of marks) {
      this.#marks.put(page, mark);
      const entry = this.#agents.get(page);
      if (entry) this.#set(page, entry);
    }
  }

  restart(): void {
    this.#error = null;
    this.#open();
    this.#notifySoon();
  }

  /** The agents on the page stay until the new list has loaded. */
  showEnded(window: EndedWindow): void {
    if (window === this.#endedWindow) return;
    this.#endedWindow = window;
    if (this.#stream) this.restart();
  }

  readonly agent = (page: string): AgentEntry | undefined => this.#agents.get(page);
  readonly entries = (): IterableIterator<readonly [page: string, AgentEntry]> => this.#agents.entries();

  /** A new object whenever the totals change. */
  readonly descendantTotals = (page: string): DescendantTotals => this.#treeTotals.of(page);

  get state(): Pick<FleetView, 'isLoaded' | 'error'> {
    return { isLoaded: this.#isLoaded, error: this.#error };
  }

  /** Notifies of changes of one agent and of its descendants' totals. */
  watch(page: string, listener: () => void): () => void {
    const watchers = this.#watchers.get(page) ?? new Set();
    this.#watchers.set(page, watchers.add(listener));
    return () => {
      watchers.delete(listener);
      if (watchers.size === 0 && this.#watchers.get(page) === watchers) this.#watchers.delete(page);
    };
  }

  readonly view = (): FleetView => {
    this.#view ??= { agents: new Map(this.#agents), ...this.state };
    return this.#view;
  };

  #open(): void {
    this.#stream?.abort();
    const stream = new AbortController();
    this.#stream = stream;
    this.#isLoaded = false;
    this.#follow(stream.signal).catch((error: unknown) => {
      if (stream.signal.aborted) return;
      this.#error = error;
      this.#notifySoon();
      reportError(error);
    });
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const endedSince = endedSinceOf(this.#endedWindow);
    const filter = { account: '*', allDepths: true, includeTerminal: true, endedSince };
    /** The pages received while loading; agents of an earlier list that are not among them are removed. */
    let received: Set<string> | null = new Set<string>();
    const stream = this.#client.listStream(filter, {
      signal,
      onOpen: () => connection.restored('listStream'),
      onGone: (agentId) => this.#remove(agentPage(agentId)),
      onWhole: () => {
        if (received) this.#removeAllBut(received);
        received = null;
        this.#isLoaded = true;
        this.mark(takeStoredMarks(localStorage, this.agent));
        this.#notifySoon();
      },
    });
    for await (const entry of stream) {
      if (signal.aborted) return;
      const page = agentPage(entry.agentId);
      received?.add(page);
      this.#set(page, entry);
      // The first rows are on the screen before the rest of a long list is read.
      if (received?.size === firstEntries && !document.hidden) for (const _ of '123') await nextFrame();
    }
  }

  #set(page: string, received: AgentEntry): void {
    const entry = this.#marks.applied(page, received);
    this.#recordChange(page, entry);
    this.#agents.set(page, entry);
    this.#notifySoon();
  }

  #recordChange(page: string, after: AgentEntry | undefined): void {
    this.#changed.add(page);
    for (const ancestor of this.#treeTotals.update(page, this.#agents.get(page), after))
      this.#changed.add(ancestor);
    if (after && isOwn(after, this.#caller) && needsPerson(attentionOf(after, isSeen(after))))
      this.#needingCaller.add(page);
    else this.#needingCaller.delete(page);
  }

  #removeAllBut(pages: ReadonlySet<string>): void {
    for (const page of this.#agents.keys()) if (!pages.has(page)) this.#remove(page);
  }

  #remove(page: string): void {
    this.#recordChange(page, undefined);
    this.#agents.delete(page);
    this.#notifySoon();
  }

  #notifySoon(): void {
    if (this.#isNotifyDue) return;
    this.#isNotifyDue = true;
    const isLoading = !this.#isLoaded && this.#hasNotified;
    if (isLoading || document.hidden) {
      setTimeout(this.#notify, loadingMs);
      return;
    }
    requestAnimationFrame(this.#notify);
    setTimeout(this.#notify, noFrameMs);
  }

  readonly #notify = (): void => {
    if (!this.#isNotifyDue) return;
    this.#isNotifyDue = false;
    this.#hasNotified = true;
    this.#view = null;
    const watchers = [...this.#changed].flatMap((page) => [...(this.#watchers.get(page) ?? [])]);
    this.#changed.clear();
    for (const watcher of watchers) watcher();
    this.#listeners.notify();
  };
}

const nextFrame = (): Promise<void> =>
  new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve));
    setTimeout(resolve, noFrameMs);
  });

export const FleetContext = createContext<Fleet | null>(null);

export function useFleet(): Fleet {
  const fleet = useContext(FleetContext);
  if (!fleet) throw new Error('useFleet needs a FleetContext above it');
  return fleet;
}

/** One agent, by the path of its page. Renders again only when that agent changes. */
export function useFleetEntry(page: string): AgentEntry | undefined {
  const fleet = useContext(FleetContext);
  const watch = useCallback(
    (listener: () => void) => fleet?.watch(page, listener) ?? (() => {}),
    [fleet, page],
  );
  return useSyncExternalStore(watch, () => fleet?.agent(page));
}

export function useDescendantTotals(page: string): DescendantTotals {
  const fleet = useFleet();
  const watch = useCallback((listener: () => void) => fleet.watch(page, listener), [fleet, page]);
  return useSyncExternalStore(watch, () => fleet.descendantTotals(page));
}
