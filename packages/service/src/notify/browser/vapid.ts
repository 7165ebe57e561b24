import { createECDH, createPrivateKey, type KeyObject, sign } from 'node:crypto';
import type { ServiceSecret } from '../../lib/service-secret.ts';

const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const tokenSeconds = 12 * 3600;

/**
 * The key with which the service identifies itself at push services (RFC 8292). It is derived from the service secret, so
 * all nodes have it, and it is stored nowhere. A browser subscribes for one key.
 */
export class VapidKey {
  /** As browsers want it: the point, in base64url. */
  readonly publicKey: string;
  readonly #key: KeyObject;

  constructor(secret: ServiceSecret) {
    const parts = [1, 2].map((part) => secret.keyFor(`web push ${part}`).toString('hex'));
    // 64 bytes, so that every number is as likely as any other.
    const scalar = (BigInt(`0x${parts.join('')}`) % (order - 1n)) + 1n;
    const d = Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex');
    const ecdh = createECDH('prime256v1');
    ecdh.setPrivateKey(d);
    const point = ecdh.getPublicKey();
    this.publicKey = point.toString('base64url');
    this.#key = createPrivateKey({
      format: 'jwk',
      key: {
        ...{ kty: 'EC', crv: 'P-256', d: d.toString('base64url') },
        x: point.subarray(1, 33).toString('base64url'),
        y: point.subarray(33).toString('base64url'),
      },
    });
  }

  /** The value of the header `Authorization` for one push service. `contact` is a URL. */
  authorization(endpoint: URL, contact: string, nowMs: number): string {
    const claims = { aud: endpoint.origin, exp: Math.floor(nowMs / 1000) + tokenSeconds, sub: contact };
    const signed = [{ typ: 'JWT', alg: 'ES256' }, claims]
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.');
    const signature = sign('sha256', Buffer.from(signed), { key: this.#key, dsaEncoding: 'ieee-p1363' });
    return `vapid t=${signed}.${signature.toString('base64url')}, k=${this.publicKey}`;
  }
}
