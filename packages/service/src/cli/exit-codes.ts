/** How a command ends, for scripts. `wait` tells how the agent came to rest. */
export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  denied: 4,
  conflict: 5,
  unreachable: 6,
  agentFailed: 10,
  agentCanceled: 11,
  agentAsks: 12,
  agentTasksUnfinished: 13,
  agentInterrupted: 14,
  timedOut: 124,
  interrupted: 130,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** Ends the command with one line for the person and a code for the script. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exitCode: ExitCode;

  constructor(message: string, exitCode: ExitCode = exitCodes.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}
