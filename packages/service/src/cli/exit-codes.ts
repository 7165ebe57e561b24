/** How a command ends, for scripts. `wait` tells how the agent came to rest. The pages are made from this table. */
const table = {
  ok: [0, 'It worked. After a wait: the agent finished, or rests with nothing left to do.'],
  failed: [1, 'It did not work; the line on standard error says why. Also: a question was answered with no.'],
  usage: [2, 'The command was typed wrong, or the service finds a field wrong.'],
  notFound: [3, 'There is no such agent, task, message or resource.'],
  denied: [4, 'No key, a wrong one, or one that may not do this.'],
  conflict: [5, 'The state forbids it: a name that is taken, an agent that has ended, a newer generation.'],
  unreachable: [6, "The service can't be reached, or is not ready."],
  agentFailed: [10, 'After a wait: the agent failed.'],
  agentCanceled: [11, 'After a wait: the agent was killed.'],
  agentAsks: [12, 'After a wait: the agent asks something.'],
  agentTasksUnfinished: [13, 'After a wait: the agent rests and left tasks unfinished.'],
  agentInterrupted: [14, 'After a wait: the turn of the agent was interrupted.'],
  agentBlocked: [15, 'After a wait: the agent is blocked until somebody fixes what the status says.'],
  timedOut: [124, 'The time of --timeout passed.'],
  interrupted: [130, 'Ctrl-C.'],
} as const satisfies Record<string, readonly [code: number, meaning: string]>;

type Ending = keyof typeof table;

export const exitCodes = Object.fromEntries(
  Object.entries(table).map(([ending, [code]]) => [ending, code]),
) as { readonly [E in Ending]: (typeof table)[E][0] };

export type ExitCode = (typeof exitCodes)[Ending];

/** In order, for help and the pages. */
export const exitCodeMeanings: readonly { readonly code: ExitCode; readonly meaning: string }[] =
  Object.values(table).map(([code, meaning]) => ({ code, meaning }));

/** Ends the command with one line for the person and a code for the script. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exitCode: ExitCode;

  constructor(message: string, exitCode: ExitCode = exitCodes.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}
