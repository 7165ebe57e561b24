import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

const algorithm = 'aes-256-gcm';
const nonceBytes = 12;
const tagBytes = 16;

/** Encrypts with a key of 32 bytes. The result can be opened only with the same context, which is not part of it. */
export function seal(key: Buffer, context: string, content: string | Buffer): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(context));
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  return Buffer.concat([nonce, cipher.update(bytes), cipher.final(), cipher.getAuthTag()]);
}

/** Null if it was sealed with another key or context, or was changed. */
export function unseal(key: Buffer, context: string, sealed: Buffer): Buffer | null {
  const end = sealed.length - tagBytes;
  if (end < nonceBytes) return null;
  try {
    const nonce = sealed.subarray(0, nonceBytes);
    const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagBytes });
    decipher.setAAD(Buffer.from(context)).setAuthTag(sealed.subarray(end));
    return Buffer.concat([decipher.update(sealed.subarray(nonceBytes, end)), decipher.final()]);
  } catch {
    return null;
  }
}
