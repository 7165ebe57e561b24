import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { createRequire } from 'node:module';
import type { MaskedStream } from '../lib/value-mask.ts';
import type { AgentProcess, ProcessExit } from './harness.ts';

/** The path of an installed module, resolved from `file`; undefined when it is not installed. */
export function resolveFrom(file: string, name: string): string | undefined {
  try {
    return createRequire(file).resolve(name);
  } catch {
    return undefined;
  }
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The result of the promise, or undefined when it takes longer. */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** How long after the end of a command an escaped process may keep its output open. */
const outputMs = 2000;

/** How a command ended, once all of its output has arrived. The caller has to read both streams. */
export async function exitAfterOutput({ child, exited }: AgentProcess): Promise<ProcessExit> {
  const streams = [child.stdout, child.stderr];
  const closed = Promise.all(
    streams.map((stream) => new Promise((resolve) => stream.once('close', resolve))),
  );
  const exit = await exited;
  await within(outputMs, closed);
  for (const stream of streams) stream.destroy();
  return exit;
}

const errorOutputLength = 2000;

/** Reads the error output of a process and returns the end of it when asked. */
export function lastErrorOutput(
  { stderr }: ChildProcessWithoutNullStreams,
  masked: MaskedStream,
): () => string {
  let end = '';
  const add = (text: string): void => {
    end = `${end}${text}`.slice(-errorOutputLength);
  };
  stderr.setEncoding('utf8').on('data', (text: string) => add(masked.add(text)));
  return () => {
    add(masked.end());
    return end.trim();
  };
}
