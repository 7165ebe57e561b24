import type { ReportReply, ReportRequest, Steer } from '@muster/sdk/contract';
import type { HarnessSession } from '../../harness/harness.ts';
import type { MessageImages } from './message-images.ts';
import { steerText } from './prompts.ts';
import type { Deliver } from './turns.ts';

type Steered = NonNullable<ReportRequest['steers']>[number];

/**
 * Messages that are to be added to the turn that is running. One that comes between two turns waits for the next one.
 * The service learns of each whether the harness took it: until then it counts as queued, so it is not lost with this
 * runner, and after the run it is delivered like any other message.
 */
export class Steers {
  readonly #images: MessageImages;
  readonly #confirm: (steered: Steered) => Promise<ReportReply>;
  /** By their `sequence`, until the service knows what became of them. */
  readonly #unconfirmed = new Map<number, Promise<void>>();
  /** Each is called when the next turn begins, or with null when there is none. */
  readonly #waiting: ((session: HarnessSession | null) => void)[] = [];
  /** During a turn. */
  #session: HarnessSession | undefined;
  #hasEnded = false;

  constructor(images: MessageImages, confirm: (steered: Steered) => Promise<ReportReply>) {
    this.#images = images;
    this.#confirm = confirm;
  }

  get unconfirmed(): number[] {
    return [...this.#unconfirmed.keys()];
  }

  /** Returns whether it is new. */
  add(message: Steer): boolean {
    const { sequence } = message;
    if (this.#hasEnded || this.#unconfirmed.has(sequence)) return false;
    const settled = this.#settle(message)
      // The run has ended otherwise, and the message is still queued.
      .catch(() => {})
      .then(() => void this.#unconfirmed.delete(sequence));
    this.#unconfirmed.set(sequence, settled);
    return true;
  }

  /** A turn during which the session takes messages. */
  during(session: HarnessSession, deliver: Deliver): Deliver {
    return async (...message) => {
      const turn = deliver(...message);
      this.#session = session;
      for (const give of this.#waiting.splice(0)) give(session);
      try {
        return await turn;
      } finally {
        this.#session = undefined;
      }
    };
  }

  /** There are no more turns. Resolves when the service knows what became of every message. */
  async end(): Promise<void> {
    this.#hasEnded = true;
    for (const give of this.#waiting.splice(0)) give(null);
    await Promise.all(this.#unconfirmed.values());
  }

  async #settle(message: Steer): Promise<void> {
    const { followUpId, sequence } = message;
    const images = await this.#images.of(message);
    const session = this.#hasEnded ? null : (this.#session ?? (await this.#nextTurn()));
    const taken = session !== null && (await session.steer({ text: steerText(message), images }));
    await this.#confirm({ followUpId, sequence, taken });
  }
  #nextTurn(): Promise<HarnessSession | null> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }
}
