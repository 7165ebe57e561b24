import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { format } from 'node:util';
import { transform } from 'esbuild';
import { vi } from 'vitest';

export const root = fileURLToPath(new URL('../../', import.meta.url));

/** A fenced code block of a page. */
export interface Block {
  readonly page: string;
  /** The line number of its first line of code. */
  readonly line: number;
  readonly heading: string;
  /** As in the fence; empty for output. */
  readonly language: string;
  readonly code: string;
  /** The operation, for a block between `<!-- generated: example of OPERATION -->` and `<!-- end -->`. */
  readonly exampleOf: string | null;
}

export const firstLine = ({ code }: Block): string => code.split('\n', 1)[0] ?? '';
export const titleOf = (block: Block): string => `line ${block.line}: ${firstLine(block)}`;

/** Every fenced block of a page, in order, without the indentation of a list. */
export function blocksOf(page: string): Block[] {
  const blocks: Block[] = [];
  let open: { indent: string; language: string; line: number; code: string[] } | null = null;
  let heading = '';
  let exampleOf: string | null = null;
  for (const [at, line] of readFileSync(`${root}${page}`, 'utf8').split('\n').entries()) {
    const fence = /^(\s*)```(\w*)$/.exec(line);
    if (open) {
      if (fence) {
        const { language, code, line: start } = open;
        blocks.push({ page, line: start, heading, language, code: `${code.join('\n')}\n`, exampleOf });
        open = null;
      } else {
        open.code.push(line.startsWith(open.indent) ? line.slice(open.indent.length) : line);
      }
    } else if (fence) {
      open = { indent: fence[1] ?? '', language: fence[2] ?? '', line: at + 2, code: [] };
    } else {
      heading = /^#{2,} (.*)$/.exec(line)?.[1] ?? heading;
      exampleOf = /^<!-- generated: example of (\w+) -->$/.exec(line)?.[1] ?? exampleOf;
      if (line === '<!-- end -->') exampleOf = null;
    }
  }
  return blocks;
}

/**
 * Runs TypeScript as a module in a folder that has the packages, and returns what it prints. It runs in this process,
 * which has loaded the SDK already: a process for each example would cost more than the example.
 */
export async function runTypeScript(
  code: string,
  folder: string,
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const file = join(folder, `${randomUUID()}.mjs`);
  writeFileSync(file, (await transform(code, { loader: 'ts' })).code);
  let printed = '';
  const log = vi.spyOn(console, 'log').mockImplementation((...values) => {
    printed += `${format(...values)}\n`;
  });
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  try {
    await import(/* @vite-ignore */ pathToFileURL(file).href);
  } finally {
    vi.unstubAllEnvs();
    log.mockRestore();
  }
  return printed;
}
