import { limits, type PollReply, type SentPartial } from '@muster/sdk/contract';
import type { PartialOutput } from '../harness/harness.ts';
import { type MaskedStream, ValueMask } from '../lib/value-mask.ts';
import { storable } from './report-text.ts';
import type { ProducedTexts } from './run/report-queue.ts';

const intervalMs = 1000 / limits.partialsPerSecond;

type Watched = PollReply['watched'];
type RunRef = Pick<SentPartial, 'agentKey' | 'runId'>;

/**
 * Sends what the runs of a runner are producing, while someone watches: at most ten requests a second, one at a time,
 * each with one partial of each run at most. Nothing is sent again. While the service is slow the newest part of each
 * text is kept, and the rest is skipped.
 */
export class LiveOutput {
  readonly #send: (partials: SentPartial[]) => Promise<unknown>;
  readonly #runs = new Set<RunOutput>();
  /** The agents that are watched, and since when. */
  #since = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #sentMs = Number.NEGATIVE_INFINITY;
  #isSending = false;

  constructor(send: (partials: SentPartial[]) => Promise<unknown>) {
    this.#send = send;
  }

  /** What the service said last. */
  get watched(): Watched {
    return [...this.#since].map(([agentKey, since]) => ({ agentKey, since }));
  }

  isWatched(agentKey: string): boolean {
    return this.#since.has(agentKey);
  }

  /** A new reader gets what is being produced from its beginning. */
  update(watched: Watched): void {
    const before = this.#since;
    this.#since = new Map(watched.map(({ agentKey, since }) => [agentKey, since]));
    const changed = new Set(
      watched.flatMap(({ agentKey, since }) => (before.get(agentKey) === since ? [] : [agentKey])),
    );
    for (const run of this.#runs) if (changed.has(run.ref.agentKey)) run.sendAgain();
    if (changed.size > 0) this.sendSoon();
  }

  /** `token` is the run's own key, which readers must not be able to use. */
  open(ref: RunRef, mask: ValueMask, token: string): RunOutput {
    const run = new RunOutput(ref, this, [mask, new ValueMask([token])], () => this.#runs.delete(run));
    this.#runs.add(run);
    return run;
  }

  sendSoon(): void {
    if (this.#timer || this.#isSending) return;
    const waitMs = this.#sentMs + intervalMs - performance.now();
    this.#timer = setTimeout(() => void this.#sendWaiting(), Math.max(0, waitMs));
  }

  async #sendWaiting(): Promise<void> {
    this.#timer = undefined;
    const partials: SentPartial[] = [];
    for (const run of [...this.#runs]) {
      const partial = partials.length < limits.partialsPerRequest ? run.take() : undefined;
      if (!partial) continue;
      partials.push(partial);
      // The next request begins with the runs that did not fit into this one.
      this.#runs.delete(run);
      this.#runs.add(run);
    }
    if (partials.length === 0) return;
    this.#sentMs = performance.now();
    this.#isSending = true;
    await this.#send(partials).catch(() => {});
    this.#isSending = false;
    this.sendSoon();
  }
}

/** What one run is producing. */
export class RunOutput implements ProducedTexts {
  readonly ref: RunRef;
  readonly close: () => void;
  readonly #live: LiveOutput;
  readonly #masks: readonly ValueMask[];
  /** By key; the one that was sent last is at the end. */
  readonly #texts = new Map<string, LiveText>();
  #isHeld = false;

  constructor(ref: RunRef, live: LiveOutput, masks: readonly ValueMask[], close: () => void) {
    this.ref = ref;
    this.close = close;
    this.#live = live;
    this.#masks = masks;
  }

  isWatched(): boolean {
    return this.#live.isWatched(this.ref.agentKey);
  }

  /** Pieces are also kept while nobody watches, for a reader who opens a stream later. */
  add({ key, type, text }: PartialOutput): void {
    if (key === '' || key.length > limits.partialKeyLength) return;
    const known = this.#texts.get(key);
    const live =
      known ??
      new LiveText(
        type,
        this.#masks.map((mask) => mask.stream()),
      );
    if (!known) this.#texts.set(key, live);
    // Not every text is followed by its item.
    for (const oldest of this.#texts.keys()) {
      if (this.#texts.size <= limits.partialTextsPerRun) break;
      this.#texts.delete(oldest);
    }
    live.add(text);
    if (this.isWatched()) this.#live.sendSoon();
  }

  /** No item follows: readers get an empty piece and remove the text. */
  discard(key: string): void {
    if (!this.isWatched()) return this.settle(key);
    this.#texts.get(key)?.discard();
    this.#live.sendSoon();
  }

  settle(key: string): void {
    this.#texts.delete(key);
  }

  sendAgain(): void {
    for (const text of this.#texts.values()) text.sendAgain();
  }

  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
    if (this.isWatched()) this.#live.sendSoon();
  }

  take(): SentPartial | undefined {
    if (this.#isHeld || !this.isWatched()) return undefined;
    for (const [key, text] of this.#texts) {
      const piece = text.take();
      if (!piece) continue;
      this.#texts.delete(key);
      if (piece.text !== '') this.#texts.set(key, text);
      return { ...this.ref, key: storable(key), type: text.type, ...piece };
    }
    return undefined;
  }
}

/** The end of a text that grows, without the values of secrets. */
class LiveText {
  readonly type: PartialOutput['type'];
  readonly #streams: readonly MaskedStream[];
  /** The first half of a character, whose second half has not come. */
  #half = '';
  #kept = '';
  #end = 0;
  #sent = 0;
  #isDiscarded = false;

  constructor(type: PartialOutput['type'], streams: readonly MaskedStream[]) {
    this.type = type;
    this.#streams = streams;
  }

  get #start(): number {
    return this.#end - Math.min(this.#kept.length, limits.keptPartialLength);
  }

  add(piece: string): void {
    const masked = this.#streams.reduce((text, stream) => stream.add(text), piece);
    const whole = this.#half + masked;
    this.#half = whole.match(/[\uD800-\uDBFF]$/)?.[0] ?? '';
    const text = storable(this.#half ? whole.slice(0, -1) : whole);
    this.#kept += text;
    // Not at each piece: every cut copies the text.
    if (this.#kept.length > 2 * limits.keptPartialLength)
      this.#kept = this.#kept.slice(-limits.keptPartialLength);
    this.#end += text.length;
  }

  sendAgain(): void {
    this.#sent = this.#start;
  }

  discard(): void {
    this.#isDiscarded = true;
  }

  take(): { offset: number; text: string } | undefined {
    if (this.#isDiscarded) return { offset: 0, text: '' };
    const first = Math.max(this.#sent, this.#start);
    if (first >= this.#end) return undefined;
    const from = this.#kept.length - (this.#end - first);
    const piece = this.#kept.slice(from, from + limits.partialTextLength);
    // Without the halves of characters at both ends: what was skipped may end within one.
    const text = piece.replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, '');
    const offset = first + (/^[\uDC00-\uDFFF]/.test(piece) ? 1 : 0);
    this.#sent = offset + text.length;
    return { offset, text };
  }
}
