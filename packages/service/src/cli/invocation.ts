import { MusterClient } from '@muster/sdk';
import type { Command } from 'commander';
import { type Connection, findConnection } from './connection.ts';
import { Output, wantsColour } from './output.ts';
import type { OutputForm } from './output-forms.ts';

/** One use of a command: what was typed, and the hands it works with. */
export interface Invocation<Flags = Readonly<Record<string, unknown>>> {
  /** As declared: a string, undefined when it was left out, or a list. */
  readonly args: readonly (string | readonly string[] | undefined)[];
  readonly flags: Flags & GlobalFlags;
  readonly output: Output;
  readonly env: NodeJS.ProcessEnv;
  /** Aborts at Ctrl-C. */
  readonly signal: AbortSignal;
  readonly connection: () => Connection;
  readonly client: () => MusterClient;
}

export interface GlobalFlags {
  readonly url?: string;
  readonly output?: OutputForm;
  readonly color?: boolean;
}

interface CommandModule<Flags> {
  readonly run: (invocation: Invocation<Flags>) => Promise<void>;
}

/** The action of a command whose code is loaded when it is used: help and completion must be quick. */
export function lazily<Flags>(load: () => Promise<CommandModule<Flags>>) {
  return async (...all: unknown[]): Promise<void> => {
    const command = all.at(-1) as Command;
    const { run } = await load();
    await run(invocationOf<Flags>(all.slice(0, -2) as Invocation['args'], command));
  };
}

function invocationOf<Flags>(args: Invocation['args'], command: Command): Invocation<Flags> {
  const flags = command.optsWithGlobals() as Flags & GlobalFlags;
  const { env } = process;
  const output = new Output(flags.output ?? 'table', wantsColour(flags.color, env));
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort());
  const connection = () => findConnection({ url: flags.url }, env, process.cwd());
  const client = () => new MusterClient(connection());
  return { args, flags, output, env, signal: stop.signal, connection, client };
}
