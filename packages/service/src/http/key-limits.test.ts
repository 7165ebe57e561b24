import { expect, test } from 'vitest';
import type { Principal } from '../control/principal.ts';
import { OpenReplies } from './key-limits.ts';
import type { Metrics } from './metrics.ts';

test('a key has at most 10,000 open waits and streams, and other keys have their own limit', () => {
  const metrics = { longReplies: { inc: () => {}, dec: () => {} } };
  const replies = new OpenReplies(metrics as unknown as Metrics, new AbortController().signal);
  const open = (keyId: string) => replies.open({ keyId } as Principal, 'wait');
  const closes = Array.from({ length: 10_000 }, () => open('crowded'));
  expect(() => open('crowded')).toThrow('this key has 10000 open waits and streams');
  open('other');
  closes[0]?.();
  open('crowded');
  expect(() => open('crowded')).toThrow('this key has 10000 open waits and streams');
});
