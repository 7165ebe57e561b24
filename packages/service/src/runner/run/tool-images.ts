import { type MusterClient, MusterError } from '@muster/sdk';
import { type Claim, imageTypeOf, limits } from '@muster/sdk/contract';
import type { ValueMask } from '../../lib/value-mask.ts';
import { retryTransient } from '../retry.ts';

/** How long the reports of a run wait for one upload, and how many may fail before the others are not tried. */
const uploadMs = 10_000;
const mostFailures = 3;
const mostLength = Math.ceil(limits.attachmentBytes / 3) * 4;

export interface ToolImagesOptions extends Pick<Claim, 'agentKey' | 'runId' | 'token'> {
  readonly client: MusterClient;
  readonly runnerId: string;
  readonly mask: ValueMask;
}

/** The images that the agent's tools return in a run. One that can't be stored is left out: the run goes on without it. */
export class ToolImages {
  readonly #options: ToolImagesOptions;
  /** Also those that contain a secret: to search a large image takes time. */
  #accepted = 0;
  #failures = 0;

  constructor(options: ToolImagesOptions) {
    this.#options = options;
  }

  /** The bytes of an image that is to be uploaded. */
  accept(base64: string): Buffer | undefined {
    if (this.#accepted >= limits.toolImagesPerRun || base64.length > mostLength) return undefined;
    const image = Buffer.from(base64, 'base64');
    if (image.length > limits.attachmentBytes || !imageTypeOf(image)) return undefined;
    this.#accepted += 1;
    return image;
  }

  /** The ids of those that were stored. Never rejects. */
  async upload(images: readonly Buffer[], signal: AbortSignal): Promise<string[]> {
    const ids: string[] = [];
    for (const image of images) {
      if (this.#failures >= mostFailures) break;
      // The agent can write any file, also one that contains a secret.
      if (image.includes(this.#options.token) || (await this.#options.mask.occursIn(image))) continue;
      const id = await this.#save(image, signal).catch(() => undefined);
      if (id === undefined) this.#failures += 1;
      else ids.push(id);
    }
    return ids;
  }

  #save(image: Buffer, closed: AbortSignal): Promise<string | undefined> {
    const { client, runnerId, agentKey, runId } = this.#options;
    const query = { runnerId, agentKey, runId: String(runId) };
    const signal = AbortSignal.any([closed, AbortSignal.timeout(uploadMs)]);
    return retryTransient(signal, async () => {
      try {
        const bytes = { query, upload: image };
        const saved = await client.call('runnerSaveAttachment', undefined, {
          ...bytes,
          signal,
          timeoutMs: uploadMs,
        });
        return saved.attachmentId;
      } catch (error) {
        // A tenant without space for images stays so.
        if (error instanceof MusterError && error.httpStatus === 429) return undefined;
        throw error;
      }
    });
  }
}
