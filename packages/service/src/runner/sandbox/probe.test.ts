import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { sandbox } from '../../../../../test/support/sandbox.ts';
import { chooseSandbox } from './probe.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'muster-probe-'));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true, force: true });
});

describe('chooseSandbox', () => {
  it('chooses none when it is off, with a warning', async () => {
    expect(await chooseSandbox('off')).toEqual({
      sandbox: null,
      note: expect.stringContaining('WITHOUT A SANDBOX'),
    });
  });

  it.skipIf(!sandbox)('chooses bubblewrap if it works', async () => {
    const choice = await chooseSandbox('required', [folder]);
    expect(choice.sandbox?.reads).toContain(folder);
    expect(choice.note).toContain('in a sandbox');
  });

  it.skipIf(process.platform !== 'linux')('says what to install without bubblewrap', async () => {
    vi.stubEnv('PATH', folder);
    await expect(chooseSandbox('required')).rejects.toThrow('apt-get install bubblewrap');
    expect(await chooseSandbox('auto')).toEqual({
      sandbox: null,
      note: expect.stringMatching(/WITHOUT A SANDBOX.*apt-get install bubblewrap/s),
    });
  });

  it.skipIf(process.platform !== 'linux').each([
    ['setting up uid map: Permission denied', 'allow user namespaces'],
    ["Can't mount proc on /newroot/proc: Operation not permitted", 'systempaths=unconfined'],
    ["Can't set hostname to agent: Operation not permitted", 'deploy/seccomp.json as the seccomp profile'],
  ])('says what to allow if bubblewrap fails with "%s"', async (message, fix) => {
    const script = `#!/bin/sh\n[ "$1" = --help ] || { echo "bwrap: ${message}" >&2; exit 1; }\n`;
    await writeFile(join(folder, 'bwrap'), script);
    await chmod(join(folder, 'bwrap'), 0o755);
    vi.stubEnv('PATH', folder);
    const refused = chooseSandbox('required');
    await expect(refused).rejects.toThrow(message);
    await expect(refused).rejects.toThrow(fix);
    expect((await chooseSandbox('auto')).sandbox).toBeNull();
  });

  it('refuses a readable path that does not exist', async () => {
    await expect(chooseSandbox('auto', [join(folder, 'none')])).rejects.toThrow('MUSTER_SANDBOX_READ');
  });
});
