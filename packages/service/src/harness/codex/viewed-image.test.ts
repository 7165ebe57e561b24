import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { limits } from '@muster/sdk/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { png } from '../../../../../test/support/images.ts';
import type { AppServer } from './app-server.ts';
import { viewedImage } from './viewed-image.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'muster-viewed-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs the command as Codex does, with the limits of the request. */
const server = {
  request: (_method: string, { command, timeoutMs, outputBytesCap }: Request) =>
    new Promise((resolve) => {
      const [program = '', ...args] = command;
      execFile(program, args, { timeout: timeoutMs, maxBuffer: outputBytesCap }, (_error, stdout) =>
        resolve({ stdout }),
      );
    }),
} as unknown as AppServer;

interface Request {
  readonly command: readonly string[];
  readonly timeoutMs: number;
  readonly outputBytesCap: number;
}

const viewed = (name: string) => viewedImage(server, join(folder, name));
const write = (name: string, content: Buffer | string) => writeFileSync(join(folder, name), content);

test('an image up to the size of an attachment is read', async () => {
  const largest = Buffer.concat([png(), Buffer.alloc(limits.attachmentBytes - png().length)]);
  write("it's -n one.png", png());
  write('largest.png', largest);
  symlinkSync('largest.png', join(folder, 'link.png'));
  expect(await viewed("it's -n one.png")).toBe(png().toString('base64'));
  expect(await viewed('link.png')).toBe(largest.toString('base64'));
});

test('what is larger, no image or no file is not', async () => {
  write('larger.png', Buffer.concat([png(), Buffer.alloc(limits.attachmentBytes)]));
  write('text.png', 'some text');
  write('empty.png', '');
  execFileSync('mkfifo', [join(folder, 'pipe.png')]);
  for (const name of ['larger.png', 'text.png', 'empty.png', 'pipe.png', 'absent.png', '.'])
    expect(await viewed(name), name).toBe('');
  expect(await viewedImage(server, '/dev/zero')).toBe('');
});

test('an answer that is not one is none', async () => {
  for (const answer of [undefined, null, 'text', { stdout: 1 }, { stdout: 'A'.repeat(8 * 1024 * 1024) }])
    expect(await viewedImage({ request: async () => answer } as unknown as AppServer, 'x')).toBe('');
  const failing = { request: () => Promise.reject(new Error('unknown method')) } as unknown as AppServer;
  expect(await viewedImage(failing, 'x')).toBe('');
});
