import { once } from 'node:events';
import { expect, it } from 'vitest';
import { BoundedLines } from './bounded-lines.ts';

const megabyte = Buffer.alloc(1024 * 1024, 'x');

it('lines pass, however many', async () => {
  let endless = 0;
  const lines = new BoundedLines(() => {
    endless += 1;
  });
  let bytes = 0;
  lines.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  for (let i = 0; i < 40; i++) lines.write(Buffer.concat([megabyte, Buffer.from('\n')]));
  lines.end();
  await once(lines, 'end');
  expect([bytes, endless]).toEqual([40 * (megabyte.length + 1), 0]);
});

it('a line without an end is passed on only so far, and told once', async () => {
  let endless = 0;
  const lines = new BoundedLines(() => {
    endless += 1;
  });
  let bytes = 0;
  lines.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  for (let i = 0; i < 40; i++) lines.write(megabyte);
  lines.end('\n{}\n');
  await once(lines, 'end');
  expect([bytes, endless]).toEqual([32 * megabyte.length, 1]);
});
