import { seal, unseal } from '../lib/sealing.ts';
import type { ServiceSecrets } from '../lib/service-secret.ts';

/**
 * What a browser keeps for the service for a while: any node can read it, and nobody else can read or make it. `purpose`
 * tells texts apart, so that none is taken for another.
 */
export class SealedTexts {
  readonly #keys: readonly Buffer[];
  readonly #purpose: string;

  constructor(secrets: ServiceSecrets, purpose: string) {
    this.#keys = secrets.all.map((secret) => secret.keyFor('sign-in'));
    this.#purpose = purpose;
  }

  seal(value: object, forMs: number): string {
    const [current] = this.#keys as [Buffer];
    const text = JSON.stringify({ value, untilMs: Date.now() + forMs });
    return seal(current, this.#purpose, text).toString('base64url');
  }

  /** Null if it is not from this service, or too old. */
  open<T>(sealed: string): T | null {
    const bytes = Buffer.from(sealed, 'base64url');
    for (const key of this.#keys) {
      const text = unseal(key, this.#purpose, bytes);
      if (!text) continue;
      const { value, untilMs } = JSON.parse(text.toString()) as { value: T; untilMs: number };
      return untilMs > Date.now() ? value : null;
    }
    return null;
  }
}
