import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { writeWorkspaceFile } from './workspace-file.ts';

it('a pipe that nobody reads is refused, and not waited for', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'muster-pipe-'));
  try {
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    await expect(writeWorkspaceFile(folder, 'pipe', 'x')).rejects.toThrow('ENXIO');
  } finally {
    await rm(folder, { recursive: true });
  }
});
