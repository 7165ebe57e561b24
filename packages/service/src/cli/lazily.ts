import type { Command } from 'commander';
import type { Invocation } from './invocation.ts';

interface CommandModule<Flags> {
  readonly run: (invocation: Invocation<Flags>) => Promise<void>;
}

/** The action of a command whose code is loaded when it is used: help and completion must be quick. */
export function lazily<Flags>(load: () => Promise<CommandModule<Flags>>) {
  return async (...all: unknown[]): Promise<void> => {
    const command = all.at(-1) as Command;
    const [{ invoke }, { run }] = await Promise.all([import('./invoke.ts'), load()]);
    await invoke(run, all.slice(0, -2) as Invocation['args'], command.optsWithGlobals());
  };
}
