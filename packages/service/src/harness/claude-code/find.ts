import { dirname, join } from 'node:path';
import { arch, platform } from 'node:process';
import { isExecutable, resolveFrom } from '../installed.ts';

/** Where Claude Code is on this machine. */
export interface ClaudeCode {
  /** The native program, which needs nothing beside it. */
  readonly executable: string;
}

const sdk = '@anthropic-ai/claude-agent-sdk';

/** Its packages are optional, and the program comes in one of its own per platform: either may be missing. */
export function findClaudeCode(): ClaudeCode | undefined {
  const sdkEntry = resolveFrom(import.meta.url, sdk);
  if (sdkEntry === undefined) return undefined;
  for (const libc of ['', '-musl']) {
    const manifest = resolveFrom(sdkEntry, `${sdk}-${platform}-${arch}${libc}/package.json`);
    const executable = manifest && join(dirname(manifest), 'claude');
    if (executable !== undefined && isExecutable(executable)) return { executable };
  }
  return undefined;
}
