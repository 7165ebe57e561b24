import type { Caller } from '@muster/sdk';
import { useMemo, useSyncExternalStore } from 'react';
import { Listeners } from '../parts/model/listeners.ts';
import { useSignedIn } from '../session/session.ts';
import { type Fleet, useFleet } from './fleet.ts';
import { type InboxItems, inboxItems, isSameInbox } from './model/inbox.ts';

const updateMs = 250;

/** What needs the person, computed a few times per second while somebody looks. */
class Inbox {
  readonly #fleet: Fleet;
  readonly #caller: Caller;
  readonly #listeners = new Listeners();
  #items: InboxItems;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #updatedMs = 0;

  constructor(fleet: Fleet, caller: Caller) {
    this.#fleet = fleet;
    this.#caller = caller;
    this.#items = inboxItems(fleet.entries(), caller);
  }

  readonly items = (): InboxItems => this.#items;

  readonly subscribe = (listener: () => void): (() => void) => {
    const ends = [this.#listeners.subscribe(listener), this.#fleet.subscribe(this.#updateSoon)];
    this.#updateSoon();
    return () => {
      for (const end of ends) end();
      if (this.#listeners.count > 0) return;
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  };

  readonly #updateSoon = (): void => {
    this.#timer ??= setTimeout(this.#update, Math.max(0, this.#updatedMs + updateMs - Date.now()));
  };

  readonly #update = (): void => {
    this.#timer = undefined;
    this.#updatedMs = Date.now();
    const { mine, everyone } = this.#items;
    const next = inboxItems(this.#fleet.entries(), this.#caller);
    if (isSameInbox(mine, next.mine) && isSameInbox(everyone, next.everyone)) return;
    this.#items = next;
    this.#listeners.notify();
  };
}

export function useInbox(): InboxItems {
  const fleet = useFleet();
  const { caller } = useSignedIn();
  const inbox = useMemo(() => new Inbox(fleet, caller), [fleet, caller]);
  return useSyncExternalStore(inbox.subscribe, inbox.items);
}

export function useIsFleetLoaded(): boolean {
  const fleet = useFleet();
  return useSyncExternalStore(fleet.subscribe, () => fleet.state.isLoaded);
}
