import { MusterClient } from '@muster/sdk';
import type { Command, CommandOptions } from 'commander';
import { findConnection, type ServiceConnection } from './connection.ts';
import { CommandError, exitCodes } from './errors.ts';
import { type Output, type OutputFormat, openOutput } from './output.ts';
import { withSecretFiles } from './variables.ts';

/** Options of a command, by what they take: a text, nothing, or several texts. */
export type Flags<Text extends string, Switch extends string = never, List extends string = never> = {
  readonly [F in Text]?: string;
} & { readonly [F in Switch]?: boolean } & { readonly [F in List]?: readonly string[] };

/** What every command is called with, beside its own arguments. */
export interface Invocation<F = unknown> {
  readonly flags: F & GlobalFlags;
  readonly output: Output;
  readonly env: NodeJS.ProcessEnv;
  /** Aborts at Ctrl-C. */
  readonly signal: AbortSignal;
  readonly connection: () => ServiceConnection;
  readonly client: () => MusterClient;
}

type GlobalFlags = Flags<'url', 'color'> & { readonly output?: OutputFormat };

/** Fewer than the client's default, because a person waits; enough to survive a restart of the service. */
const retries = { tries: 4 };
/** How long a command may clean up after Ctrl-C. A second Ctrl-C ends it immediately. */
const cleanUpMs = 5_000;

/** Adds a command; `usage` is its name and its arguments, such as `show <agent> <id>`. */
export function addCommand<F, Args extends unknown[]>(
  parent: Command,
  usage: string,
  description: string,
  run: (invocation: Invocation<F>, ...args: Args) => Promise<void>,
  options?: CommandOptions,
): Command {
  return parent
    .command(usage, options)
    .description(description)
    .action((...all: unknown[]) => {
      const command = all.at(-1) as Command;
      return invoke(command.optsWithGlobals<F & GlobalFlags>(), (invocation) =>
        run(invocation, ...(all.slice(0, -2) as Args)),
      );
    });
}

async function invoke<F>(
  flags: F & GlobalFlags,
  run: (invocation: Invocation<F>) => Promise<void>,
): Promise<void> {
  const env = withSecretFiles(process.env);
  // Imported here, so that `muster --help` starts fast.
  const { nodeFetch } = await import('../lib/node-fetch.ts');
  const output = await openOutput(flags, env);
  const stop = new AbortController();
  const { signal } = stop;
  const exitInterrupted = (): never => {
    if (process.stderr.isTTY) process.stderr.write('\n');
    process.exit(exitCodes.interrupted);
  };
  process.once('SIGINT', () => {
    stop.abort();
    setTimeout(exitInterrupted, cleanUpMs);
  });
  const connection = () => findConnection(flags, env, process.cwd());
  let opened: MusterClient | undefined;
  const client = () => {
    opened ??= new MusterClient({
      ...connection(),
      fetch: nodeFetch,
      retries,
      onRetry: ({ error }) => output.progress.retrying(error.message),
      onIgnoredFields: (_, fields) =>
        output.note(
          `muster: the service ignored unknown fields: ${fields.join(', ')}. It may be older than this command.`,
        ),
      onWarning: (_, warning) => output.note(`muster: ${warning}`),
    });
    return opened;
  };
  try {
    await run({ flags, output, env, signal, connection, client });
  } catch (error) {
    if (!signal.aborted || error instanceof CommandError) throw error;
  } finally {
    output.progress.end();
  }
  if (signal.aborted) exitInterrupted();
}
