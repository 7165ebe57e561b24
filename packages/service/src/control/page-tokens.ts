import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { invalid, type Refusal } from '../domain/refusal.ts';

const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;

/**
 * Where a page ends, for the caller to send back. The content is internal (such as the id of an agent), so it is
 * encrypted with a key that every node derives from the service's secret. A token is valid only for its list: `list`
 * names it, tenant included.
 */
export class PageTokens {
  readonly #key: Buffer;

  constructor(secret: string) {
    this.#key = Buffer.from(hkdfSync('sha256', secret, '', 'page-token', 32));
  }

  seal(list: string, place: string): string {
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv(algorithm, this.#key, nonce).setAAD(Buffer.from(list));
    const sealed = [nonce, cipher.update(place, 'utf8'), cipher.final(), cipher.getAuthTag()];
    return Buffer.concat(sealed).toString('base64url');
  }

  open(list: string, token: string): string | Refusal {
    const bytes = Buffer.from(token, 'base64url');
    const end = bytes.length - tagBytes;
    if (end < nonceBytes) return badToken();
    try {
      const decipher = createDecipheriv(algorithm, this.#key, bytes.subarray(0, nonceBytes), {
        authTagLength: tagBytes,
      });
      decipher.setAAD(Buffer.from(list)).setAuthTag(bytes.subarray(end));
      return decipher.update(bytes.subarray(nonceBytes, end), undefined, 'utf8') + decipher.final('utf8');
    } catch {
      return badToken();
    }
  }
}

const badToken = (): Refusal =>
  invalid('pageToken', 'must be a nextPageToken of an earlier reply for this list');
