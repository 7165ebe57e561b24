import type { MusterClient } from '@muster/sdk';
import type { Connection } from './connection.ts';
import type { Output } from './output.ts';
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
