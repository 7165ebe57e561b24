import { once } from 'node:events';
import { expect, it } from 'vitest';
import { BoundedLines } from './process.ts';

const megabyte = Buffer.alloc(1024 * 1024, 'x');

it('any number of lines is forwarded', async () => {
  let tooLong = 0;
  const lines = new BoundedLines(() => {
    tooLong += 1;
  });
  let bytes = 0;
  lines.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  for (let i = 0; i < 40; i++) lines.write(Buffer.concat([megabyte, Buffer.from('\n')]));
  lines.end();
  await once(lines, 'end');
  expect([bytes, tooLong]).toEqual([40 * (megabyte.length + 1), 0]);
});

it('a line that is too long is not forwarded to its end, and reported once', async () => {
  let tooLong = 0;
  const lines = new BoundedLines(() => {
    tooLong += 1;
  });
  let bytes = 0;
  lines.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  for (let i = 0; i < 40; i++) lines.write(megabyte);
  lines.end('\n{}\n');
  await once(lines, 'end');
  expect([bytes, tooLong]).toEqual([32 * megabyte.length, 1]);
});
