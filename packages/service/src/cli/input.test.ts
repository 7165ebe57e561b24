import { describe, expect, it } from 'vitest';
import { deliveryTime, durationMs } from './input.ts';

describe('durationMs', () => {
  it.each([
    ['90s', 90_000],
    ['10m', 600_000],
    ['1h30m', 5_400_000],
    ['1.5 hours', 5_400_000],
    ['3d', 259_200_000],
    ['2w', 1_209_600_000],
  ])('parses %s', (text, ms) => {
    expect(durationMs(text)).toBe(ms);
  });

  it.each(['', 'soon', '10', '5m later', '-5m'])('refuses %j', (text) => {
    expect(() => durationMs(text)).toThrow('is not a duration');
  });
});

describe('deliveryTime', () => {
  const now = new Date(2026, 2, 10, 12, 0);
  const local = (...parts: [number, number, number, number, number]): string =>
    new Date(...parts).toISOString();

  it.each([
    ['tomorrow 9:00', local(2026, 2, 11, 9, 0)],
    ['9:00', local(2026, 2, 11, 9, 0)],
    ['friday 17:30', local(2026, 2, 13, 17, 30)],
    ['2026-12-24T18:00', local(2026, 11, 24, 18, 0)],
  ])('parses %s', async (at, time) => {
    expect(await deliveryTime({ at }, now)).toBe(time);
  });

  it('counts from now with --in, and refuses both flags together', async () => {
    expect(await deliveryTime({ in: '2h' }, now)).toBe(local(2026, 2, 10, 14, 0));
    expect(await deliveryTime({}, now)).toBeUndefined();
    await expect(deliveryTime({ in: '2h', at: 'noon' }, now)).rejects.toThrow('not both');
    await expect(deliveryTime({ at: 'whenever' }, now)).rejects.toThrow('is not a time');
  });
});
