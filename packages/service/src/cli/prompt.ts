import { createInterface } from 'node:readline/promises';
import { CommandError, exitCodes } from './exit-codes.ts';

/** Asks the person at the terminal; where nobody is, the command says how to go ahead without. */
export async function isConfirmed(signal: AbortSignal): Promise<boolean> {
  return /^y(es)?$/i.test((await asked('Go ahead? [y/N] ', signal, '--yes goes ahead')).trim());
}

export async function asked(question: string, signal: AbortSignal, otherwise: string): Promise<string> {
  if (process.stdin.isTTY !== true)
    throw new CommandError(`nobody is there to ask; ${otherwise}`, exitCodes.usage);
  const line = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return await line.question(question, { signal });
  } finally {
    line.close();
  }
}
