import { observationsPerPoll, timesPerObservation } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { Observed } from './observed.ts';

const request = { what: 'request', provider: 'openai', model: 'gpt-6', outcome: 'ok', seconds: 2 } as const;
const total = (taken: ReturnType<Observed['take']>) => taken.reduce((sum, { times = 1 }) => sum + times, 0);

test('a poll takes what was observed once, and a poll that failed takes it back', () => {
  const observed = new Observed();
  observed.add(request);
  const taken = observed.take();
  expect(taken).toEqual([request]);
  expect(observed.take()).toEqual([]);
  observed.add({ what: 'checkpointFailed' });
  observed.takeBack(taken);
  expect(observed.take()).toEqual([{ what: 'checkpointFailed' }, request]);
});

test('very many observations become fewer, with the same sums, and no more than a poll may have', () => {
  const observed = new Observed();
  for (let i = 0; i < 500; i += 1) observed.add({ ...request, outputTokens: 3 });
  const taken = observed.take();
  expect(taken.length).toBeLessThanOrEqual(observationsPerPoll);
  expect(total(taken)).toBe(500);
  expect(taken.reduce((sum, { seconds = 0 }) => sum + seconds, 0)).toBe(1_000);
  expect(taken.reduce((sum, { outputTokens = 0 }) => sum + outputTokens, 0)).toBe(1_500);
  for (let i = 0; i < 10_000; i += 1) observed.add(request);
  const bounded = observed.take();
  expect(bounded).toHaveLength(observationsPerPoll);
  expect(Math.max(...bounded.map(({ times = 1 }) => times))).toBeLessThanOrEqual(timesPerObservation);
});
