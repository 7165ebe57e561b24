import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { CommandError, exitCodes } from './exit-codes.ts';

/** Asks the person at the terminal; where nobody is, the command says how to go ahead without. */
export async function isConfirmed(signal: AbortSignal): Promise<boolean> {
  return /^y(es)?$/i.test(await asked('Go ahead? [y/N] ', signal, { otherwise: '--yes goes ahead' }));
}

interface Asking {
  /** What to do where nobody can be asked. */
  readonly otherwise: string;
  /** What is typed is not shown. */
  readonly isSecret?: boolean;
}

/** One line, without the space around it; empty when the input ends instead. */
export async function asked(question: string, signal: AbortSignal, asking: Asking): Promise<string> {
  const { stdin, stderr } = process;
  if (stdin.isTTY !== true)
    throw new CommandError(`nobody is there to ask; ${asking.otherwise}`, exitCodes.usage);
  const output = asking.isSecret ? new Writable({ write: (_chunk, _encoding, done) => done() }) : stderr;
  const line = createInterface({ input: stdin, output, terminal: true });
  // Only now: from here on the terminal shows nothing that is typed.
  if (asking.isSecret) stderr.write(question);
  // It reads the keys one by one, so that Ctrl-C is one of them and no signal.
  line.once('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  const ended = once(line, 'close', { signal }).then(() => '');
  ended.catch(() => {});
  try {
    return (await Promise.race([line.question(question, { signal }), ended])).trim();
  } finally {
    line.close();
    if (asking.isSecret) stderr.write('\n');
  }
}
