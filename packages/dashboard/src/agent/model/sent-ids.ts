import { mintId } from '@muster/sdk';

/**
 * Ids of messages that are being sent. A message keeps its id while its content is the same: sent twice, by a double
 * click or after a lost reply, it is queued once.
 */
export class SentIds {
  readonly #sent = new Map<string, { readonly content: string; readonly followUpId: string }>();

  idFor(key: string, message: unknown): string {
    const content = JSON.stringify(message);
    const before = this.#sent.get(key);
    const followUpId = before?.content === content ? before.followUpId : mintId();
    this.#sent.set(key, { content, followUpId });
    return followUpId;
  }

  /** The next message gets a new id, even with the same content. */
  accepted(key: string): void {
    this.#sent.delete(key);
  }
}
