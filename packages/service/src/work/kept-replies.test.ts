import { expect, it } from 'vitest';
import { KeptReplies } from './kept-replies.ts';

it('replies are kept up to a number of bytes in all, and those that were used last stay', () => {
  const replies = new KeptReplies(4_000);
  const reply = { etag: '"1"', link: undefined, bytes: Buffer.alloc(1_000) };
  replies.keep('a', reply);
  replies.keep('b', reply);
  expect(replies.find('a')).toBe(reply);
  replies.keep('c', reply);
  expect(['a', 'b', 'c'].filter((key) => replies.find(key))).toEqual(['a', 'c']);
  replies.keep('d', { ...reply, link: 'x'.repeat(2_000) });
  expect(['a', 'b', 'c', 'd'].filter((key) => replies.find(key))).toEqual(['d']);
  replies.keep('k'.repeat(2_000), reply);
  expect(replies.find('d')).toBeUndefined();
  replies.keep('a', reply);
  replies.keep('c', reply);
  replies.keep('a', { ...reply, bytes: Buffer.alloc(2 * 1024 * 1024) });
  expect(['a', 'b', 'c'].filter((key) => replies.find(key))).toEqual(['c']);
});
