import type { AgentEntry, MusterClient } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { noteRefusal } from '../session/session.ts';
import { connection } from './connection.ts';
import { type EndedWindow, endedSinceOf } from './ended-window.ts';
import { type Below, Kin } from './kin.ts';

/** Every agent that the caller may see, as it is now. */
export interface FleetView {
  /** By the address of its page, which names it. */
  readonly agents: ReadonlyMap<string, AgentEntry>;
  /** Everything there is has come; until then the page is still filling. */
  readonly isWhole: boolean;
  readonly error: unknown;
}

/** While the first thousands pour in, drawing each frame would only slow them down. */
const fillingMs = 150;
/** A page that is hidden has no frames, and one that is hidden while it waits for a frame gets none. */
const framelessMs = 250;

/**
 * The one list stream of the page. Changes are gathered and told once per frame, so that a fleet in full swing costs
 * one drawing per frame and not one per change. Who shows a single agent watches that one; a copy of the whole is made
 * only for those who ask for the view.
 */
export class Fleet {
  readonly #client: MusterClient;
  readonly #agents = new Map<string, AgentEntry>();
  readonly #kin = new Kin();
  readonly #listeners = new Set<() => void>();
  readonly #watchers = new Map<string, Set<() => void>>();
  readonly #changed = new Set<string>();
  #view: FleetView | null = null;
  #endedWindow: EndedWindow = '7d';
  #stream: AbortController | null = null;
  #isWhole = false;
  #error: unknown = null;
  #isDue = false;

  constructor(client: MusterClient) {
    this.#client = client;
  }

  /** Follows the list until the returned function is called. */
  start(): () => void {
    this.#open();
    return () => {
      this.#stream?.abort();
      this.#stream = null;
      connection.restored('listStream');
    };
  }

  /** Begins anew, after an error. */
  restart(): void {
    this.#error = null;
    this.#open();
    this.#tellSoon();
  }

  /** Looks further back, or not so far. What is on the page stays there until the other list has come. */
  showEnded(window: EndedWindow): void {
    if (window === this.#endedWindow) return;
    this.#endedWindow = window;
    if (this.#stream) this.restart();
  }

  readonly agent = (page: string): AgentEntry | undefined => this.#agents.get(page);
  readonly entries = (): IterableIterator<readonly [page: string, AgentEntry]> => this.#agents.entries();

  /** What is known of those below an agent; another object whenever it is something else. */
  readonly below = (page: string): Below => this.#kin.below(page);

  get state(): Pick<FleetView, 'isWhole' | 'error'> {
    return { isWhole: this.#isWhole, error: this.#error };
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Tells of changes of one agent, and of what is below it. */
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
    this.#isWhole = false;
    this.#follow(stream.signal).catch((error: unknown) => {
      if (stream.signal.aborted) return;
      this.#error = error;
      this.#tellSoon();
      noteRefusal(error);
    });
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const endedSince = endedSinceOf(this.#endedWindow);
    const filter = { account: '*', allDepths: true, includeTerminal: true, endedSince };
    /** Who has come since it was opened; when all have, the others belong to another window. */
    let came: Set<string> | null = new Set<string>();
    const stream = this.#client.listStream(filter, {
      signal,
      onOpen: () => connection.restored('listStream'),
      onWhole: () => {
        if (came) this.#dropAllBut(came);
        came = null;
        this.#isWhole = true;
        this.#tellSoon();
      },
    });
    for await (const entry of stream) {
      if (signal.aborted) return;
      const page = agentPage(entry.agentId);
      came?.add(page);
      this.#note(page, entry);
      this.#agents.set(page, entry);
      this.#tellSoon();
    }
  }

  #note(page: string, after: AgentEntry | undefined): void {
    this.#changed.add(page);
    for (const above of this.#kin.learn(page, this.#agents.get(page), after)) this.#changed.add(above);
  }

  #dropAllBut(pages: ReadonlySet<string>): void {
    for (const page of this.#agents.keys()) {
      if (pages.has(page)) continue;
      this.#note(page, undefined);
      this.#agents.delete(page);
    }
  }

  #tellSoon(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    if (!this.#isWhole || document.hidden) {
      setTimeout(this.#tell, fillingMs);
      return;
    }
    requestAnimationFrame(this.#tell);
    setTimeout(this.#tell, framelessMs);
  }

  readonly #tell = (): void => {
    if (!this.#isDue) return;
    this.#isDue = false;
    this.#view = null;
    const told = [...this.#changed].flatMap((page) => [...(this.#watchers.get(page) ?? [])]);
    this.#changed.clear();
    for (const watcher of told) watcher();
    for (const listener of this.#listeners) listener();
  };
}
