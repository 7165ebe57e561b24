import { createECDH, createPublicKey, randomBytes, verify } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { decryptPush } from '../../../../../test/support/push-service.ts';
import { ServiceSecret } from '../../lib/service-secret.ts';
import { areKeys, encryptFor, mostPayloadBytes } from './encrypt.ts';
import { VapidKey } from './vapid.ts';

const bytes = (text: string): Buffer => Buffer.from(text, 'base64url');

/** RFC 8291, Appendix A. */
const example = {
  text: 'When I grow up, I want to be a watermelon',
  p256dh: 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4',
  auth: 'BTBZMqHH6r4Tts7J_aSIgg',
  privateKey: 'yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw',
  salt: 'DGv6ra1nlYgDCS1FRnbzlw',
  body: 'DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN',
};

describe('what is sent to a browser', () => {
  test('is encrypted as in the example of RFC 8291', () => {
    const keys = { p256dh: bytes(example.p256dh), auth: bytes(example.auth) };
    const random = { salt: bytes(example.salt), privateKey: bytes(example.privateKey) };
    expect(encryptFor(keys, Buffer.from(example.text), random).toString('base64url')).toBe(example.body);
  });

  test('has room for the largest payload, and each is different', () => {
    const browser = createECDH('prime256v1');
    const keys = { p256dh: browser.generateKeys(), auth: randomBytes(16) };
    const text = Buffer.alloc(mostPayloadBytes, 'ä');
    const [one, other] = [encryptFor(keys, text), encryptFor(keys, text)];
    expect(one.length).toBe(4096);
    expect(one.equals(other)).toBe(false);
    expect(decryptPush(one, browser, keys.auth).equals(text)).toBe(true);
    expect(() => decryptPush(one, browser, randomBytes(16))).toThrow();
  });

  test('needs a point of the curve and 16 bytes', () => {
    const p256dh = createECDH('prime256v1').generateKeys();
    const auth = randomBytes(16);
    expect(areKeys({ p256dh, auth })).toBe(true);
    for (const [point, secret] of [
      [Buffer.alloc(65, 4), auth],
      [p256dh.subarray(1), auth],
      [p256dh, auth.subarray(1)],
      [Buffer.alloc(0), Buffer.alloc(0)],
    ] as const)
      expect(areKeys({ p256dh: point, auth: secret })).toBe(false);
  });
});

test('the service signs with a key that only its secret decides', () => {
  const key = new VapidKey(new ServiceSecret('one'));
  expect(new VapidKey(new ServiceSecret('one')).publicKey).toBe(key.publicKey);
  expect(new VapidKey(new ServiceSecret('two')).publicKey).not.toBe(key.publicKey);
  const nowMs = Date.parse('2026-03-01T12:00:00Z');
  const header = key.authorization(
    new URL('https://push.example/send/x?y=1'),
    'https://muster.example',
    nowMs,
  );
  const [, token = '', k = ''] = /^vapid t=(\S+), k=(\S+)$/.exec(header) ?? [];
  expect(k).toBe(key.publicKey);
  const [head = '', claims = '', signature = ''] = token.split('.');
  expect(JSON.parse(bytes(head).toString())).toEqual({ typ: 'JWT', alg: 'ES256' });
  expect(JSON.parse(bytes(claims).toString())).toEqual({
    aud: 'https://push.example',
    exp: nowMs / 1000 + 12 * 3600,
    sub: 'https://muster.example',
  });
  const point = bytes(k);
  const x = point.subarray(1, 33).toString('base64url');
  const y = point.subarray(33).toString('base64url');
  const verifier = createPublicKey({ format: 'jwk', key: { kty: 'EC', crv: 'P-256', x, y } });
  const isValid = verify(
    'sha256',
    Buffer.from(`${head}.${claims}`),
    { key: verifier, dsaEncoding: 'ieee-p1363' },
    bytes(signature),
  );
  expect(isValid).toBe(true);
});
