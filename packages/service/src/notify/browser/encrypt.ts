import { createCipheriv, createECDH, hkdfSync, randomBytes } from 'node:crypto';

/** The keys of a browser, as `PushSubscription` has them. */
export interface BrowserKeys {
  /** A point of P-256, not compressed. */
  readonly p256dh: Buffer;
  readonly auth: Buffer;
}

const curve = 'prime256v1';
const pointBytes = 65;
const authBytes = 16;
const recordBytes = 4096;
const headerBytes = 16 + 4 + 1 + pointBytes;
const tagBytes = 16;

/** What push services take is one record of 4,096 bytes; a delimiter is behind the text. */
export const mostPayloadBytes = recordBytes - headerBytes - tagBytes - 1;

export function areKeys({ p256dh, auth }: BrowserKeys): boolean {
  if (p256dh.length !== pointBytes || auth.length !== authBytes) return false;
  try {
    const own = createECDH(curve);
    own.generateKeys();
    own.computeSecret(p256dh);
    return true;
  } catch {
    // Not a point of the curve.
    return false;
  }
}

/** Encrypts a text for one browser, as RFC 8291 says (aes128gcm, one record). */
export function encryptFor(
  { p256dh, auth }: BrowserKeys,
  text: Buffer,
  random: { readonly salt?: Buffer; readonly privateKey?: Buffer } = {},
): Buffer {
  const own = createECDH(curve);
  if (random.privateKey) own.setPrivateKey(random.privateKey);
  else own.generateKeys();
  const ownKey = own.getPublicKey();
  const salt = random.salt ?? randomBytes(16);
  const about = Buffer.concat([Buffer.from('WebPush: info\0'), p256dh, ownKey]);
  const shared = derive(own.computeSecret(p256dh), auth, about, 32);
  const key = derive(shared, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16);
  const nonce = derive(shared, salt, Buffer.from('Content-Encoding: nonce\0'), 12);
  const cipher = createCipheriv('aes-128-gcm', key, nonce);
  const size = Buffer.alloc(5);
  size.writeUInt32BE(recordBytes);
  size.writeUInt8(pointBytes, 4);
  // 2 marks the last record.
  const record = [cipher.update(text), cipher.update(Buffer.from([2])), cipher.final(), cipher.getAuthTag()];
  return Buffer.concat([salt, size, ownKey, ...record]);
}

const derive = (key: Buffer, salt: Buffer, info: Buffer, bytes: number): Buffer =>
  Buffer.from(hkdfSync('sha256', key, salt, info, bytes));
