import { invalid, type Refusal } from '../../domain/refusal.ts';
import { seal, unseal } from '../../lib/sealing.ts';
import type { ServiceSecrets } from '../../lib/service-secret.ts';

/**
 * Where a page ends, for the caller to send back. The content is internal (such as the id of an agent), so it is
 * encrypted with a key that every node derives from the service's secret. A token is valid only for its list: `list`
 * names it, tenant included.
 */
export class PageTokens {
  readonly #keys: readonly Buffer[];

  constructor(secrets: ServiceSecrets) {
    this.#keys = secrets.all.map((secret) => secret.keyFor('page-token'));
  }

  seal(list: string, place: string): string {
    const [current] = this.#keys as [Buffer];
    return seal(current, list, place).toString('base64url');
  }

  open(list: string, token: string): string | Refusal {
    const bytes = Buffer.from(token, 'base64url');
    for (const key of this.#keys) {
      const place = unseal(key, list, bytes);
      if (place) return place.toString();
    }
    return invalid('pageToken', 'must be a nextPageToken of an earlier reply for this list');
  }
}
