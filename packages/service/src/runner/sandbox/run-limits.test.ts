import { expect, it } from 'vitest';
import { LimitWatch, runLimits } from './run-limits.ts';

const gib = 1024 ** 3;

it('a profile that says nothing gets builtin limits, on a small machine less memory', () => {
  expect(runLimits({}, 64 * gib)).toEqual({ memoryMb: 4096, processes: 1024, scratchMb: 1024 });
  expect(runLimits({}, 2 * gib)).toEqual({ memoryMb: 1536, processes: 1024, scratchMb: 1024 });
});

it('a profile has the last word, also by 0', () => {
  const profile = { cpus: 2, memoryMb: 8192, processes: 0, scratchMb: 0 };
  expect(runLimits(profile, 2 * gib)).toEqual(profile);
});

it('each limit that is reached is told once, with its value and how to raise it', async () => {
  const warnings: string[] = [];
  let reached = { memoryMb: 0, processes: 0 };
  const watch = new LimitWatch({
    profile: { name: 'small' },
    values: { memoryMb: 64, processes: 32, scratchMb: 8 },
    groups: { reached: () => reached },
    fullScratch: async () => (reached.memoryMb > 1 ? ['/tmp', '/dev/shm'] : []),
    warn: (text) => warnings.push(text),
  });
  await watch.look();
  expect(warnings).toEqual([]);
  reached = { memoryMb: 1, processes: 0 };
  await watch.look();
  reached = { memoryMb: 2, processes: 7 };
  await watch.look();
  await watch.look();
  const raise = (limit: string) =>
    `To raise it, set ${limit} in the vm-profile small, which the pool of this run names.`;
  expect(warnings).toEqual([
    `The run reached its limit memoryMb: 64. The kernel killed 1 of its processes. ${raise('memoryMb')}`,
    `The run reached its limit processes: 32. 7 processes or threads could not be started. ${raise('processes')}`,
    `The run reached its limit scratchMb: 8. Full: /tmp, /dev/shm. ${raise('scratchMb')}`,
  ]);
});
