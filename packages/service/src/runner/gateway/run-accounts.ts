import { providerFacts } from '../accounts/account.ts';
import type { NamedAccount, Pause, ProviderAccounts } from '../accounts/provider-accounts.ts';
import type { ProviderFailure } from './provider-errors.ts';
import type { ProviderEndpointOptions } from './provider-options.ts';

/** How long an account is paused when the provider names no time. */
const pauseMs = 15 * 60_000;

type Options = Pick<
  ProviderEndpointOptions,
  'name' | 'accounts' | 'usualAccount' | 'isRetried' | 'models' | 'renames' | 'listener' | 'log'
>;

/** The accounts of one run: the one that it stays with, and which of the others take over. */
export class RunAccounts {
  readonly #options: Options;
  readonly #accounts: ProviderAccounts | undefined;
  /** Accounts that were paused because of this run. */
  readonly #failed = new Set<string>();
  /** By model: accounts that turned out not to have it. */
  readonly #lacking = new Map<string, ReadonlySet<string>>();
  #current: NamedAccount | undefined;
  #release: () => void = () => {};

  constructor(options: Options) {
    this.#options = options;
    this.#accounts = options.accounts;
    if (options.isRetried) this.#accounts?.retryRefused();
    this.#stayWith(this.#choose(options.models[0] ?? '', options.usualAccount));
  }

  get current(): string | undefined {
    return this.#current?.id;
  }

  get areSeveral(): boolean {
    return (this.#accounts?.all.length ?? 0) > 1;
  }

  /** The account for a request. Undefined: the runner has none for this model. */
  take(model: string, reason?: string): NamedAccount | undefined {
    const before = this.#current;
    const next = this.peek(model);
    if (!next || next === before) return next;
    const pause = before && this.#accounts?.pauseOf(before.id);
    // The agent stays with its account where that only lacks this model.
    if (before && !pause) return next;
    if (before && pause)
      this.#warn(`${reason ?? pause.error}. ${before.id} ${pausedText(pause)}`, before, next);
    this.#stayWith(next);
    this.#options.listener.account?.(next.id);
    return next;
  }

  /** The account for a request that changes nothing. */
  peek(model: string): NamedAccount | undefined {
    return this.#choose(model, this.#current?.id);
  }

  /** Which account takes over from one that failed; undefined: none is left. */
  replace(failed: NamedAccount, model: string, failure: ProviderFailure): NamedAccount | undefined {
    if (failure.type === 'refused' && failure.code === 'MODEL_UNKNOWN') {
      this.#lacking.set(model, new Set([...(this.#lacking.get(model) ?? []), failed.id]));
      const next = this.peek(model);
      if (next) this.#warn(`${failure.message}. Its requests go to another account`, failed, next);
      return next;
    }
    this.#options.log.warn({ account: failed.id, reason: failure.summary }, 'account paused');
    this.#accounts?.pause(failed.id, pauseOf(failure));
    this.#failed.add(failed.id);
    return this.take(model, failure.message);
  }

  /** What ends the run when every account that has the model is paused: it waits for the first that can go on by itself. */
  whenNoneIsLeft(model: string, failure: ProviderFailure): ProviderFailure {
    const serving = this.#accounts?.serving(this.#providerModel(model)) ?? [];
    const ready = this.peek(model);
    if (ready) return continuedWith(ready, failure);
    const pauses = serving.flatMap(({ id }) => {
      const pause = this.#accounts?.pauseOf(id);
      return pause ? [{ id, ...pause }] : [];
    });
    if (serving.length < 2 || !pauses.some(({ isLimit }) => isLimit)) return failure;
    const first = pauses.toSorted((a, b) => a.untilMs - b.untilMs)[0];
    if (!first) return failure;
    const until = new Date(first.untilMs);
    const { title } = providerFacts[this.#options.name];
    const all = `${pauses.length} of ${serving.length} accounts of ${title} are paused`;
    const message = `${failure.message}. ${all}; ${first.id} until ${until.toISOString()}`;
    const waitMs = Math.max(0, first.untilMs - Date.now());
    return { type: 'limit', until, waitMs, message, summary: failure.summary };
  }

  /** What ends the run when a part of the answer was passed on: only the next run can use another account. */
  whenAnswered(failed: NamedAccount, model: string, failure: ProviderFailure): ProviderFailure {
    this.replace(failed, model, failure);
    return this.whenNoneIsLeft(model, failure);
  }

  noneFor(model: string): ProviderFailure {
    const { title } = providerFacts[this.#options.name];
    const message = `No account of ${title} on this runner serves the model ${JSON.stringify(model)}. Add it to \`models\` of an account, or use another model`;
    return { type: 'refused', code: 'MODEL_UNKNOWN', message, summary: message };
  }

  /** The provider has accepted a request that was sent then. */
  accepted({ id }: NamedAccount, sentMs: number): void {
    this.#accounts?.accepted(id, sentMs);
  }

  close(): void {
    this.#release();
    this.#release = () => {};
  }

  #choose(model: string, usual: string | undefined): NamedAccount | undefined {
    const lacking = this.#lacking.get(model) ?? new Set();
    return this.#accounts?.choose({
      model: this.#providerModel(model),
      usual,
      failed: this.#failed,
      lacking,
    });
  }

  #stayWith(account: NamedAccount | undefined): void {
    this.close();
    if (account && this.#accounts) this.#release = this.#accounts.use(account.id);
    this.#current = account;
  }

  #warn(why: string, from: NamedAccount, to: NamedAccount): void {
    const text = `${why}; ${to.id} takes over.`;
    this.#options.listener.item({ type: 'WARNING', text, data: { from: from.id, to: to.id } });
  }

  #providerModel(model: string): string {
    const { renames = {} } = this.#options;
    return Object.hasOwn(renames, model) ? (renames[model] ?? model) : model;
  }
}

/** The next run goes on immediately. */
const continuedWith = ({ id }: NamedAccount, { message, summary }: ProviderFailure): ProviderFailure => ({
  type: 'limit',
  until: new Date(),
  waitMs: 0,
  message: `${message}. ${id} takes over`,
  summary,
});

const pausedText = ({ untilMs }: Pause): string =>
  Number.isFinite(untilMs)
    ? `is paused until ${new Date(untilMs).toISOString()}`
    : 'is paused until its credentials are changed or an agent is retried';

/** A limit, or an account without credit, ends by itself. Refused credentials have to be changed. */
function pauseOf(failure: ProviderFailure): Pause {
  const { summary: error } = failure;
  const guessed = Date.now() + pauseMs;
  if (failure.type === 'limit')
    return { untilMs: failure.isGuess ? guessed : failure.until.getTime(), error, isLimit: true };
  const untilMs =
    failure.code === 'PROVIDER_OUT_OF_CREDIT'
      ? (failure.until?.getTime() ?? guessed)
      : Number.POSITIVE_INFINITY;
  return { untilMs, error, isLimit: false };
}
