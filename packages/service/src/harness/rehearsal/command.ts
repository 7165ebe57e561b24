import type { AgentProcess } from '../harness.ts';
import { heardOut } from '../heard-out.ts';
import { BoundedOutput } from './bounded-output.ts';

export interface Finished {
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** Both streams as they came, bounded. */
  readonly output: string;
  readonly stdout: string;
}

/** What a command said and how it ended, once nothing of it is left. It is asked nothing: its input is empty. */
export async function finished(command: AgentProcess, keepBytes: number): Promise<Finished> {
  const { child } = command;
  const output = new BoundedOutput(keepBytes);
  const stdout = new BoundedOutput(keepBytes);
  child.stdout.on('data', (chunk: Buffer) => {
    output.add(chunk);
    stdout.add(chunk);
  });
  child.stderr.on('data', (chunk: Buffer) => output.add(chunk));
  child.stdin.end();
  const exit = await heardOut(command);
  return { ...exit, output: output.toString(), stdout: stdout.toString() };
}
