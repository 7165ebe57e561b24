import { dirname, join } from 'node:path';
import { arch, platform } from 'node:process';
import { isExecutable, resolveFrom } from '../installed.ts';

/** Where Codex is on this machine. */
export interface Codex {
  /** The native program, without the script of its package that only looks for it. */
  readonly executable: string;
  /** What it needs beside it: the host of its scripts, its search program. */
  readonly folder: string;
}

const triples: Readonly<Record<string, string>> = {
  'linux-x64': 'x86_64-unknown-linux-musl',
  'linux-arm64': 'aarch64-unknown-linux-musl',
  'darwin-x64': 'x86_64-apple-darwin',
  'darwin-arm64': 'aarch64-apple-darwin',
};

/** Its packages are optional, and the program comes in one of its own per platform: either may be missing. */
export function findCodex(): Codex | undefined {
  const system = `${platform}-${arch}`;
  const triple = triples[system];
  const codex = resolveFrom(import.meta.url, '@openai/codex/package.json');
  if (triple === undefined || codex === undefined) return undefined;
  const manifest = resolveFrom(codex, `@openai/codex-${system}/package.json`);
  if (manifest === undefined) return undefined;
  const folder = join(dirname(manifest), 'vendor', triple);
  const executable = join(folder, 'bin', 'codex');
  return isExecutable(executable) ? { executable, folder } : undefined;
}
