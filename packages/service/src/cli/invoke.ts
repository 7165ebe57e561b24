import { MusterClient } from '@muster/sdk';
import { nodeFetch } from '../lib/node-fetch.ts';
import { findConnection } from './connection.ts';
import { CommandError, exitCodes } from './exit-codes.ts';
import type { GlobalFlags, Invocation } from './invocation.ts';
import { Output, wantsColour } from './output.ts';

/** Somebody waits for the answer: a service that is away is said soon, and a restart is still outlived. */
const retries = { tries: 4 };
/** How long a command may take to put things in order after Ctrl-C. The next Ctrl-C is not waited for. */
const lastWordsMs = 5_000;

/** Runs a command with what it needs. Ctrl-C ends it without a word of its own. */
export async function invoke<Flags>(
  run: (invocation: Invocation<Flags>) => Promise<void>,
  args: Invocation['args'],
  flags: Flags & GlobalFlags,
): Promise<void> {
  const { env } = process;
  const output = new Output(flags.output ?? 'table', wantsColour(flags.color, env));
  const stop = new AbortController();
  const { signal } = stop;
  const leave = (): never => {
    if (process.stderr.isTTY) process.stderr.write('\n');
    process.exit(exitCodes.interrupted);
  };
  process.once('SIGINT', () => {
    stop.abort();
    setTimeout(leave, lastWordsMs);
  });
  const connection = () => findConnection({ url: flags.url }, env, process.cwd());
  const client = () =>
    new MusterClient({
      ...connection(),
      fetch: nodeFetch,
      retries,
      onRetry: ({ error }) => output.waiting.trouble(error.message),
      onIgnoredFields: (_, fields) =>
        output.note(
          `muster: the service does not know ${fields.join(', ')}: it may be older than this command`,
        ),
      onWarning: (_, warning) => output.note(`muster: ${warning}`),
    });
  try {
    await run({ args, flags, output, env, signal, connection, client });
  } catch (error) {
    if (!signal.aborted || error instanceof CommandError) throw error;
  } finally {
    output.waiting.end();
  }
  if (signal.aborted) leave();
}
