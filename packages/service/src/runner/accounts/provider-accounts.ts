import { statSync } from 'node:fs';
import { matchesPattern, type ProviderAccount } from '@muster/sdk/contract';
import type { Account } from './account.ts';

/** An account as the operator named it. */
export interface NamedAccount extends Account {
  /** `provider/name`, which no other account of the runner has. */
  readonly id: string;
  /** Which models it serves, with `*` for any text; by the provider's names. Empty: all. */
  readonly models: readonly string[];
}

/** Why an account is not used for some time. `untilMs` is infinite when a person has to act. */
export interface Pause {
  readonly untilMs: number;
  /** Without anything that an agent could have written: every agent of the runner may see it. */
  readonly error: string;
  /** It ends by itself, and the provider said when. Otherwise it is about the account itself. */
  readonly isLimit: boolean;
}

interface CurrentPause extends Pause {
  readonly sinceMs: number;
}

export interface Wanted {
  /** As the provider names it; empty for a request without one. */
  readonly model: string;
  /** The account that the agent stays with. */
  readonly usual: string | undefined;
  /** Accounts that failed in this run. */
  readonly failed: ReadonlySet<string>;
  /** Accounts that turned out not to have the model. */
  readonly lacking: ReadonlySet<string>;
}

/**
 * The accounts of one provider, in the order of the operator, and which of them are paused; shared by all runs of the runner.
 *
 * An agent stays with its account, because the provider's prompt cache belongs to it. When that is paused, the first other
 * one that is not takes over, and the agent stays with that. When all are paused, a run still tries each once: the limit
 * may have been lifted, or a person may have fixed the account and retried.
 */
export class ProviderAccounts {
  readonly all: readonly NamedAccount[];
  /** Called when an account is paused, or not paused any more, or accepted for the first time. */
  onChange: () => void = () => {};
  readonly #pauses = new Map<string, CurrentPause>();
  readonly #accepted = new Set<string>();
  /** How many live runs use an account. */
  readonly #runs = new Map<string, number>();

  constructor(all: readonly NamedAccount[]) {
    this.all = all;
  }

  serving(model: string): NamedAccount[] {
    return this.all.filter(({ models }) => serves(models, model));
  }

  choose({ model, usual, failed, lacking }: Wanted): NamedAccount | undefined {
    const serving = this.serving(model).filter(({ id }) => !lacking.has(id));
    const ready = serving.filter(({ id }) => !this.pauseOf(id));
    const left = ready.length > 0 ? ready : serving.filter(({ id }) => !failed.has(id));
    return left.find(({ id }) => id === usual) ?? left[0];
  }

  pauseOf(id: string): Pause | undefined {
    const pause = this.#pauses.get(id);
    if (!pause) return undefined;
    if (Date.now() < pause.untilMs && !this.#hasNewCredentials(id, pause)) return pause;
    this.#pauses.delete(id);
    return undefined;
  }

  pause(id: string, pause: Pause): void {
    const isNew = !this.pauseOf(id);
    this.#pauses.set(id, { ...pause, sinceMs: Date.now() });
    if (isNew) this.onChange();
  }

  /** The provider has accepted a request of this account that was sent then: its pause ends, if it began before that. */
  accepted(id: string, sentMs: number): void {
    const isNew = !this.#accepted.has(id);
    this.#accepted.add(id);
    const pause = this.#pauses.get(id);
    const ends = pause !== undefined && pause.sinceMs <= sentMs;
    if (ends) this.#pauses.delete(id);
    if (ends || isNew) this.onChange();
  }

  /** A person has retried an agent, perhaps because the provider takes the credentials again. */
  retryRefused(): void {
    const refused = [...this.#pauses].filter(([, { untilMs }]) => !Number.isFinite(untilMs));
    for (const [id] of refused) this.#pauses.delete(id);
    if (refused.length > 0) this.onChange();
  }

  /** A run uses the account until it calls what this returns. */
  use(id: string): () => void {
    const add = (more: number) => this.#runs.set(id, (this.#runs.get(id) ?? 0) + more);
    add(1);
    return () => add(-1);
  }

  states(): ProviderAccount[] {
    return this.all.map(({ id: account }) => {
      const pause = this.pauseOf(account);
      const until = pause && Number.isFinite(pause.untilMs) ? new Date(pause.untilMs).toISOString() : null;
      const runs = this.#runs.get(account) ?? 0;
      const state = pause ? 'PAUSED' : runs > 0 ? 'IN_USE' : 'FREE';
      const accepted = this.#accepted.has(account);
      return { account, state, runs, pausedUntil: until, accepted, error: pause?.error ?? '' };
    });
  }

  /** Only where they are in files; other credentials change with a restart of the runner. */
  #hasNewCredentials(id: string, { untilMs, sinceMs }: CurrentPause): boolean {
    if (Number.isFinite(untilMs)) return false;
    const { files = [] } = this.all.find((account) => account.id === id) ?? {};
    return files.some((file) => (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) > sinceMs);
  }
}

const serves = (patterns: readonly string[], model: string): boolean =>
  patterns.length === 0 || model === '' || patterns.some((pattern) => matchesPattern(pattern, model));
