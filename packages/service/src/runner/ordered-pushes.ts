import type { ReportItem } from '@muster/sdk/contract';
import type { Push } from '../harness/harness.ts';

/** What the harness tells in the order in which it happened; a warning can come from anywhere. */
const harnessItems: readonly ReportItem['type'][] = ['TOOL_CALL', 'TOOL_RESULT', 'MESSAGE', 'THINKING'];
const mostHeld = 100;

/**
 * Keeps pushes behind the commands that made them. The gateway reports a push when it passes, and the harness may report
 * the command only when it has ended. So a push with no call under way waits for the next item of the harness.
 */
export class OrderedPushes {
  readonly #send: (push: Push) => void;
  readonly #callsUnderWay = new Set<unknown>();
  #held: Push[] = [];

  constructor(send: (push: Push) => void) {
    this.#send = send;
  }

  push(push: Push): void {
    this.#held.push(push);
    if (this.#callsUnderWay.size > 0 || this.#held.length >= mostHeld) this.flush();
  }

  /** After the item was sent. */
  told({ type, data }: ReportItem): void {
    if (type === 'TOOL_CALL') this.#callsUnderWay.add(data?.id);
    if (type === 'TOOL_RESULT') this.#callsUnderWay.delete(data?.id);
    if (harnessItems.includes(type)) this.flush();
  }

  flush(): void {
    for (const push of this.#held.splice(0)) this.#send(push);
  }
}
