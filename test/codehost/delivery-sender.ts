import { randomUUID } from 'node:crypto';
import { request as requestHttp } from 'node:http';

/** A delivery as it was sent, which can be sent again. */
export interface SentDelivery {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The status of each answer; 0 without one. */
  readonly statuses: number[];
}

/** Sends webhooks one after the other, as code hosts do, unless a test holds them back or asks for disorder. */
export class DeliverySender {
  readonly sent: SentDelivery[] = [];
  /** How often each delivery is sent. */
  copies = 1;
  #url: string | undefined;
  #held: SentDelivery[] | undefined;
  #last: Promise<void> = Promise.resolve();

  /** Where to; without a URL, deliveries are only recorded. */
  to(url: string | undefined): void {
    this.#url = url;
  }

  send(headers: Readonly<Record<string, string>>, body: string): void {
    const delivery: SentDelivery = { headers, body, statuses: [] };
    this.sent.push(delivery);
    if (this.#held) this.#held.push(delivery);
    else this.#queue(delivery);
  }

  /** From now on, deliveries wait for `release`. */
  hold(): void {
    this.#held ??= [];
  }

  /** Sends what was held back, in reverse order if wanted, and stops holding. */
  release({ isReversed = false, drop = false } = {}): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    if (drop) return;
    for (const delivery of isReversed ? held.reverse() : held) this.#queue(delivery);
  }

  /** Sends those again that got no answer, or an error of the server. */
  resendUnanswered(): void {
    const isUnanswered = ({ statuses }: SentDelivery) =>
      statuses.length > 0 && statuses.every((status) => status === 0 || status >= 500);
    for (const delivery of this.sent.filter(isUnanswered)) this.#queue(delivery);
  }

  /** Sends a delivery again, with the same id. */
  resend(delivery: SentDelivery): void {
    this.#queue(delivery);
  }

  /** Settles when everything has been sent and answered. */
  async idle(): Promise<void> {
    for (let last: Promise<void> | undefined; last !== this.#last; ) {
      last = this.#last;
      await last;
    }
  }

  #queue(delivery: SentDelivery): void {
    const url = this.#url;
    if (url === undefined) return;
    for (let copy = 0; copy < this.copies; copy++)
      this.#last = this.#last.then(async () => {
        delivery.statuses.push(await post(url, delivery));
      });
  }
}

export const newDeliveryId = (): string => randomUUID();

function post(url: string, { headers, body }: SentDelivery): Promise<number> {
  return new Promise((resolve) => {
    const sending = requestHttp(url, { method: 'POST', headers, agent: false }, (response) => {
      response.resume();
      response.on('close', () => resolve(response.statusCode ?? 0));
    });
    sending.on('error', () => resolve(0));
    sending.end(body);
  });
}
