import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { eventually } from '../../../../test/support/async.ts';
import { RunnerFixture } from '../../../../test/support/fake-service.ts';
import { reserveOf } from '../lib/disk-space.ts';
import { folderSizes } from './disk.ts';

const fixture = new RunnerFixture();
const totalBytes = 1000e9;

it('keeps 5 % of the disk free, at least 2 GB, or what the operator says', () => {
  const disk = (bytes: number) => ({ freeBytes: 0, totalBytes: bytes });
  expect(reserveOf(disk(1000e9), null)).toBe(50e9);
  expect(reserveOf(disk(10e9), null)).toBe(2e9);
  expect(reserveOf(disk(1000e9), 1)).toBe(1e9);
});

it('below the reserve stops the run that uses most, takes no other, and says why', async () => {
  let freeBytes = 100e9;
  fixture.start({ diskReserveGb: 50, spaceOf: async () => ({ freeBytes, totalBytes }) });
  const small = fixture.service.offer('!run echo $$ > pid; touch ready; sleep 600');
  const large = fixture.service.offer(
    '!run echo $$ > pid; head -c 9M /dev/zero > big; touch ready; sleep 600',
  );
  await Promise.all([fixture.started(small), fixture.started(large)]);
  freeBytes = 40e9;
  await fixture.ended(large);
  expect(fixture.isAlive(large)).toBe(false);
  const { error } = fixture.service.endOf(large) ?? {};
  expect(error).toMatchObject({ code: 'DISK_FULL' });
  expect(error?.message).toMatch(/disk of the runner is almost full: 40 GB are free, 50 GB are kept free/);
  expect(fixture.service.textsOf(large, 'WARNING')).toContain(error?.message);
  await eventually(() =>
    expect(fixture.service.polls.at(-1)).toMatchObject({
      free: { real: 0, rehearsed: 0 },
      capabilities: expect.arrayContaining(['disk-full']),
    }),
  );

  // The free space does not shrink any more.
  expect(fixture.service.endOf(small)).toBeUndefined();
  freeBytes = 30e9;
  await fixture.ended(small);

  freeBytes = 60e9;
  const next = fixture.service.offer('!say served');
  await fixture.ended(next);
  expect(fixture.service.polls.at(-1)?.capabilities).not.toContain('disk-full');
});

it('measures folders with a deadline: one that takes too long counts as the largest', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'muster-sizes-'));
  try {
    await mkdir(join(folder, 'a'));
    await writeFile(join(folder, 'a', 'file'), Buffer.alloc(300 * 1024));
    const [size, missing] = await folderSizes([join(folder, 'a'), join(folder, 'missing')], 30_000);
    expect(size).toBeGreaterThanOrEqual(300 * 1024);
    expect(missing).toBe(0);
    expect((await folderSizes(['/proc'], 1))[0]).toBe(Number.POSITIVE_INFINITY);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
