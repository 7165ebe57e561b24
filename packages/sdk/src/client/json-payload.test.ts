import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodePayload, encodePayload } from './json-payload.ts';

test('a document comes back from base64 as it was', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue()), (document) => {
      const text = JSON.stringify(document);
      expect(encodePayload(document)).toBe(Buffer.from(text).toString('base64'));
      expect(JSON.stringify(decodePayload(encodePayload(document)))).toBe(text);
    }),
  );
});

test('a large document fits', () => {
  const document = { text: 'ä'.repeat(250_000) };
  expect(decodePayload(encodePayload(document))).toEqual(document);
});
