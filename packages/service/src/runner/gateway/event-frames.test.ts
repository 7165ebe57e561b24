import { describe, expect, it } from 'vitest';
import { frameOf } from '../../../../../test/provider/script.ts';
import { FrameSplitter } from './event-frames.ts';

const chunk = (event: unknown): Buffer =>
  frameOf(
    { ':event-type': 'chunk', ':message-type': 'event' },
    { bytes: Buffer.from(JSON.stringify(event)).toString('base64'), p: 'abc' },
  );

function read(bytes: Buffer, size = bytes.length): string[] {
  const seen: string[] = [];
  const splitter = new FrameSplitter((data) => seen.push(data));
  for (let at = 0; at < bytes.length; at += size) splitter.write(bytes.subarray(at, at + size));
  splitter.end();
  return seen;
}

describe("AWS's binary events", () => {
  const events = [{ type: 'message_start', text: 'größe 🎷' }, { type: 'message_stop' }];
  const stream = Buffer.concat(events.map(chunk));

  it.each([1, 2, 3, 7, 12, 13, 64, 1_000_000])('are read from chunks of %d bytes', (size) => {
    expect(read(stream, size).map((data) => JSON.parse(data) as unknown)).toEqual(events);
  });

  it('that are exceptions are read as errors', () => {
    const headers = { ':exception-type': 'throttlingException', ':message-type': 'exception' };
    const [error = ''] = read(frameOf(headers, { message: 'Too many tokens' }));
    expect(JSON.parse(error)).toEqual({
      type: 'error',
      error: { type: 'throttlingException', message: 'Too many tokens' },
    });
  });

  it('that are too long are skipped, and the next one is read', () => {
    const long = chunk({ text: 'x'.repeat(300 * 1024) });
    expect(read(Buffer.concat([long, stream]), 1_000).length).toBe(2);
  });

  it('that are cut off or no events say nothing, and are read in linear time', () => {
    expect(read(stream.subarray(0, -1)).length).toBe(1);
    for (const byte of [0, 1, 0x7f, 0xff]) expect(read(Buffer.alloc(1024 * 1024, byte), 997)).toEqual([]);
    const wrongHeaders = chunk({});
    wrongHeaders.writeUInt32BE(0xffffffff, 4);
    expect(read(Buffer.concat([wrongHeaders, stream])).length).toBe(2);
  });
});
