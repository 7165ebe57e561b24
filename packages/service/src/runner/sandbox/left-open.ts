import { readdirSync, readFileSync } from 'node:fs';

const closesOnExec = 0o2000000;

/**
 * The numbers of files that whoever started the runner left open. They would reach every process that the runner
 * starts, as far as into a sandbox, and an agent could go through them to what is hidden from it. They are told apart
 * from Node's own by those being marked to be closed when a program starts.
 */
export function leftOpen(): number[] {
  try {
    return readdirSync('/proc/self/fd')
      .map(Number)
      .filter((file) => file > 2 && !closesByItself(file));
  } catch {
    return [];
  }
}

function closesByItself(file: number): boolean {
  try {
    const [, flags = ''] = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${file}`, 'utf8')) ?? [];
    return (Number.parseInt(flags, 8) & closesOnExec) !== 0;
  } catch {
    // The folder itself was one of them.
    return true;
  }
}
