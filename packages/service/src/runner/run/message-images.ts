import type { MusterClient } from '@muster/sdk';
import type { Claim } from '@muster/sdk/contract';
import type { Image } from '../../harness/harness.ts';
import { messageOf } from '../../lib/errors.ts';
import { retryTransient } from '../retry.ts';

/** Of all images that one message to the harness has: providers limit the size of a request. */
const mostBytes = 16 * 1024 * 1024;
const callTimeoutMs = 60_000;

export interface MessageImagesOptions extends Pick<Claim, 'agentKey' | 'runId'> {
  readonly client: MusterClient;
  readonly runnerId: string;
  readonly signal: AbortSignal;
  readonly warn: (text: string) => void;
}

/** Reads the images in the messages of a run. One that can't be read is left out with a warning. */
export class MessageImages {
  readonly #options: MessageImagesOptions;

  constructor(options: MessageImagesOptions) {
    this.#options = options;
  }

  /** Of one or several messages. An older service sends no ids. */
  async of(...messages: readonly { readonly attachmentIds?: readonly string[] }[]): Promise<Image[]> {
    const ids = new Set(messages.flatMap(({ attachmentIds = [] }) => attachmentIds));
    const images: Image[] = [];
    let bytes = 0;
    let leftOut = 0;
    for (const id of ids) {
      const image = await this.#read(id);
      if (!image) continue;
      if (bytes + image.bytes > mostBytes) {
        leftOut += 1;
        continue;
      }
      bytes += image.bytes;
      images.push({ mediaType: image.mediaType, base64: image.content });
    }
    if (leftOut > 0)
      this.#options.warn(
        `${leftOut === 1 ? '1 image was' : `${leftOut} images were`} left out: the images of a turn have at most ${mostBytes} bytes together.`,
      );
    return images;
  }

  async #read(attachmentId: string) {
    const { client, runnerId, agentKey, runId, signal, warn } = this.#options;
    const body = { runnerId, agentKey, runId, attachmentId };
    try {
      return await retryTransient(signal, () =>
        client.call('runnerAttachment', body, { signal, timeoutMs: callTimeoutMs }),
      );
    } catch (error) {
      if (signal.aborted) throw error;
      warn(`An image was left out: ${messageOf(error)}`);
      return undefined;
    }
  }
}
