import { Readable } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { png } from '../../../../test/support/images.ts';
import { boundedLines } from './harness-lines.ts';

const mebibyte = 1024 * 1024;

/** The lines of a text that arrives in chunks of this size, parsed, and the reasons of those that are left out. */
async function read(text: string, chunkBytes = 65_536) {
  const bytes = Buffer.from(text);
  const chunks = Array.from({ length: Math.ceil(bytes.length / chunkBytes) }, (_, i) =>
    bytes.subarray(i * chunkBytes, (i + 1) * chunkBytes),
  );
  const leftOut: string[] = [];
  const lines: unknown[] = [];
  const bounded = boundedLines(Readable.from(chunks), ({ beginning, reason }) =>
    leftOut.push(`${beginning.slice(0, 8)}: ${reason}`),
  );
  for await (const line of bounded) lines.push(JSON.parse(line.toString()));
  return { lines, leftOut };
}

it.each([1, 2, 3, 65_536])('lines are the same in chunks of %d bytes', async (chunkBytes) => {
  const values = [{ a: 'é"\\\n\u2028😀', b: [1, { c: '\\"' }] }, 'x', { d: '\\u0041,[{' }];
  const text = `\n${values.map((value) => JSON.stringify(value)).join('\n\n')}\n{"no":"line break"`;
  expect(await read(text, chunkBytes)).toEqual({ lines: values, leftOut: [] });
});

it.each([
  ['a', 'a'],
  ['é', 'é'],
  ['😀', '😀'],
  ['\\u00e9', 'é'],
  ['\\\\', '\\'],
  ['\\"', '"'],
])('a string of %s is cut between characters, and what follows it is kept', async (part, character) => {
  for (const shift of ['', 'x', 'xx', 'xxx']) {
    const { lines } = await read(`{"a":"${shift}${part.repeat(mebibyte + 1)}","b":[2]}\n{}\n`, 65_537);
    const [{ a, b }, next] = lines as [{ a: string; b: unknown }, unknown];
    expect([b, next]).toEqual([[2], {}]);
    expect(a.endsWith(`${character}…`)).toBe(true);
    expect(Buffer.byteLength(a)).toBeLessThan(mebibyte + 12);
  }
});

it('a line that arrives byte by byte takes little more memory than its bytes', async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc');
  const usedBytes = () => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  const line = JSON.stringify('x'.repeat(200_000));
  const before = usedBytes();
  let grown = 0;
  async function* bytes() {
    // As a stream has them: each in memory of its own.
    for (const byte of Buffer.from(line)) yield Buffer.from(new Uint8Array([byte]).buffer);
    grown = usedBytes() - before;
    yield Buffer.from('\n');
  }
  const lines: string[] = [];
  for await (const one of boundedLines(bytes(), () => {})) lines.push(one.toString());
  expect(lines).toEqual([line]);
  expect(grown).toBeLessThan(8 * mebibyte);
});

it('an image is longer than other strings', async () => {
  const image = Buffer.concat([png(), Buffer.alloc(4 * mebibyte)]).toString('base64');
  expect((await read(`${JSON.stringify([image, image])}\n`)).lines).toEqual([[image, image]]);
  const { leftOut } = await read(`${JSON.stringify([`${image} `])}\n`);
  expect(leftOut).toEqual(['["iVBORw: more than 4194304 bytes of text']);
});

it.each([
  ['more than 25000 values', `[${'0,'.repeat(25_000)}0]`],
  ['more than 25000 values', `[${'[],'.repeat(13_000)}0]`],
  ['more than 100 levels', '['.repeat(40 * mebibyte)],
  ['more than 4194304 bytes of text', ' '.repeat(40 * mebibyte)],
  ['more than 4194304 bytes of text', JSON.stringify(Array(5).fill('x'.repeat(mebibyte)))],
  ['more than 16777216 bytes of images', JSON.stringify(Array(4).fill(`iVBO${'A'.repeat(5 * mebibyte)}`))],
])('a line with %s is left out, and the next one is read', async (reason, line) => {
  const beginning = line.slice(0, 8);
  expect(await read(`${line}\n{}\n`)).toEqual({ lines: [{}], leftOut: [`${beginning}: ${reason}`] });
});
