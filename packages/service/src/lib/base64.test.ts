import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { Base64Decoder } from './base64.ts';

function decoded(text: string, pieceLength: number, mostBytes = 100) {
  const decoder = new Base64Decoder(mostBytes);
  for (let at = 0; at < text.length; at += pieceLength) decoder.write(text.slice(at, at + pieceLength));
  return decoder.end();
}

test.each([1, 2, 3, 4, 5, 7, 1000])(
  'base64 in pieces of %i characters is what it is as a whole',
  (pieceLength) => {
    for (const length of [0, 1, 2, 3, 4, 50, 99, 100]) {
      const bytes = randomBytes(length);
      expect(decoded(bytes.toString('base64'), pieceLength)).toEqual(bytes);
    }
    expect(decoded(randomBytes(101).toString('base64'), pieceLength)).toBe('too long');
  },
);

test.each(['a*b=', 'AAA', 'AA==AAAA', '-_-_', 'AAAA\nAAAA', 'AAB=', 'A===', '====', 'ÄÄÄÄ'])(
  '%j is not base64',
  (text) => {
    expect(decoded(text, 3)).toBe('invalid');
    expect(decoded(text, 100)).toBe('invalid');
  },
);
