import { setTimeout as pause } from 'node:timers/promises';
import type { AgentProcess } from '../harness.ts';
import { BoundedOutput } from './bounded-output.ts';

export interface Finished {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** Both streams as they came, bounded. */
  readonly output: string;
  readonly stdout: string;
}

/** How long after the end of a command a process that got away may hold its output. */
const settleMs = 2000;

/** What a command said and how it ended, once nothing of it is left. It is asked nothing: its input is empty. */
export async function finished({ child, exited }: AgentProcess, keepBytes: number): Promise<Finished> {
  const output = new BoundedOutput(keepBytes);
  const stdout = new BoundedOutput(keepBytes);
  child.stdout.on('data', (chunk: Buffer) => {
    output.add(chunk);
    stdout.add(chunk);
  });
  child.stderr.on('data', (chunk: Buffer) => output.add(chunk));
  child.stdin.end();
  const streams = [child.stdout, child.stderr];
  const closed = Promise.all(
    streams.map((stream) => new Promise((resolve) => stream.once('close', resolve))),
  );
  const exit = await exited;
  const patience = new AbortController();
  await Promise.race([closed, pause(settleMs, undefined, { signal: patience.signal })]);
  patience.abort();
  for (const stream of streams) stream.destroy();
  return { ...exit, output: output.toString(), stdout: stdout.toString() };
}
