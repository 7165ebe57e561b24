import { setTimeout as pause } from 'node:timers/promises';
import type { AgentProcess, ProcessExit } from './harness.ts';

/** How long after the end of a command a process that got away may hold its output. */
const settleMs = 2000;

/** How a command ended, once nothing of it is left and all that it said was heard. Somebody must read both streams. */
export async function heardOut({ child, exited }: AgentProcess): Promise<ProcessExit> {
  const streams = [child.stdout, child.stderr];
  const closed = Promise.all(
    streams.map((stream) => new Promise((resolve) => stream.once('close', resolve))),
  );
  const exit = await exited;
  const patience = new AbortController();
  await Promise.race([closed, pause(settleMs, undefined, { signal: patience.signal })]);
  patience.abort();
  for (const stream of streams) stream.destroy();
  return exit;
}
