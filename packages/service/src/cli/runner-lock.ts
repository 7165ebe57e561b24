import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isRunning, type ProcessId, processId } from '../runner/sandbox/proc.ts';
import { ConfigError } from './environment.ts';

/** One runner per data folder: a second one would take the first for dead and clear away what its runs stand on. */
export async function lockRunnerFolder(dataFolder: string): Promise<void> {
  const file = join(dataFolder, 'runner.lock');
  const holder = readHolder(file);
  if (holder && holder.pid !== process.pid && (await isRunning(holder)))
    throw new ConfigError(
      `the runner with process id ${holder.pid} works in ${dataFolder}; give this one its own folder`,
    );
  const own = await processId(process.pid);
  if (own) writeFileSync(file, JSON.stringify(own));
}

function readHolder(file: string): ProcessId | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ProcessId;
  } catch {
    return undefined;
  }
}
