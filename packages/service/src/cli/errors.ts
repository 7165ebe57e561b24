import {
  ConnectionError,
  MusterError,
  NotFoundError,
  type StatusName,
  UnauthenticatedError,
} from '@muster/sdk';
import { type AgentStatus, kindOf, kinds } from '@muster/sdk/contract';
import { type Command, CommanderError } from 'commander';

/** What a command's exit code means. The help text and docs/cli.md are generated from this table. */
const table = {
  ok: [0, 'Success. After a wait: the agent finished, or is idle with nothing left to do.'],
  failed: [1, 'The command failed; standard error says why. Also: you answered a confirmation with no.'],
  usage: [2, 'The arguments are wrong, or the service rejected a field.'],
  notFound: [3, 'The agent, task, message or resource does not exist.'],
  denied: [4, 'The API key is missing, unknown, or not allowed to do this.'],
  conflict: [5, 'The current state does not allow it: name taken, agent ended, or newer generation.'],
  unreachable: [6, 'The service is unreachable or not ready.'],
  agentFailed: [10, 'After a wait: the agent failed.'],
  agentCanceled: [11, 'After a wait: the agent was killed.'],
  agentNeedsInput: [12, 'After a wait: the agent needs input (it asked a question).'],
  agentTasksUnfinished: [13, 'After a wait: the agent is idle with unfinished tasks.'],
  agentInterrupted: [14, "After a wait: the agent's turn was interrupted."],
  agentBlocked: [15, 'After a wait: the agent is blocked; muster status shows what to fix.'],
  timedOut: [124, 'The wait reached its --timeout.'],
  interrupted: [130, 'Interrupted with Ctrl-C.'],
} as const satisfies Record<string, readonly [code: number, meaning: string]>;

type ExitName = keyof typeof table;

export const exitCodes = Object.fromEntries(Object.entries(table).map(([name, [code]]) => [name, code])) as {
  readonly [N in ExitName]: (typeof table)[N][0];
};

export type ExitCode = (typeof exitCodes)[ExitName];

export const exitCodeMeanings: readonly { readonly code: ExitCode; readonly meaning: string }[] =
  Object.values(table).map(([code, meaning]) => ({ code, meaning }));

/** Ends the command with one line on standard error and an exit code. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exitCode: ExitCode;

  constructor(message: string, exitCode: ExitCode = exitCodes.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}

export const usageError = (message: string): CommandError => new CommandError(message, exitCodes.usage);

/** The exit code of a wait for this agent. */
export function exitCodeOfAgent({
  phase,
  phaseReason,
}: Pick<AgentStatus, 'phase' | 'phaseReason'>): ExitCode {
  if (phase === 'PHASE_FAILED') return exitCodes.agentFailed;
  if (phase === 'PHASE_CANCELED') return exitCodes.agentCanceled;
  if (phaseReason === 'QUESTION') return exitCodes.agentNeedsInput;
  if (phaseReason === 'TASKS_UNFINISHED') return exitCodes.agentTasksUnfinished;
  if (phaseReason === 'BLOCKED') return exitCodes.agentBlocked;
  return phaseReason === 'INTERRUPTED' ? exitCodes.agentInterrupted : exitCodes.ok;
}

const codesByStatus: Readonly<Partial<Record<StatusName, ExitCode>>> = {
  INVALID_ARGUMENT: exitCodes.usage,
  OUT_OF_RANGE: exitCodes.usage,
  UNAUTHENTICATED: exitCodes.denied,
  PERMISSION_DENIED: exitCodes.denied,
  NOT_FOUND: exitCodes.notFound,
  ALREADY_EXISTS: exitCodes.conflict,
  FAILED_PRECONDITION: exitCodes.conflict,
  ABORTED: exitCodes.conflict,
  UNAVAILABLE: exitCodes.unreachable,
};

export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CommandError) return error.exitCode;
  if (error instanceof CommanderError) return exitCodes.usage;
  if (error instanceof MusterError) return codesByStatus[error.status] ?? exitCodes.failed;
  return error instanceof ConnectionError ? exitCodes.unreachable : exitCodes.failed;
}

/** Errors whose message is enough for the user. For any other error the stack trace is printed. */
const expectedErrors = [
  'ConfigError',
  'CommandError',
  'ConnectionError',
  'FolderInUseError',
  'ArchiveError',
  'SchemaError',
  'EmbeddedPostgresUnavailableError',
];

/** What went wrong and what to do next, in one line. Empty when commander has shown the help instead. */
export function errorLine(error: unknown, program: Command, argv: readonly string[]): string {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  const command = commandIn(program, argv);
  if (error instanceof CommanderError) return usageLine(error, command);
  const isExpected = error instanceof MusterError || expectedErrors.includes(name);
  if (!isExpected) return stack ?? message;
  return `${message}${nextStep(error, command)}`.replace(/\s*\n\s*/g, ' ');
}

function usageLine({ code, message }: CommanderError, command: Command): string {
  if (code === 'commander.help') return '';
  const text = message.replace(/^error: |\.$/g, '').replace(/\s*\n\s*/g, ' ');
  return /did you mean/i.test(text) ? text : `${text}; see ${fullName(command)} --help`;
}

function nextStep(error: unknown, command: Command): string {
  if (error instanceof ConnectionError)
    return ': is the service running? Start one here with muster serve; muster config shows where the URL comes from';
  if (error instanceof UnauthenticatedError) return '; set MUSTER_API_KEY, or run muster login';
  if (!(error instanceof NotFoundError)) return '';
  const [first] = command.registeredArguments;
  const name = first?.name() ?? '';
  if (name.startsWith('agent'))
    return "; muster ps --all lists all your agents, with --account '*' those of all accounts";
  if (name === 'change-request') return '; muster cr ls --all lists them';
  if (name === 'integration')
    return command.name() === 'redeliver'
      ? `; muster integration deliveries ${command.args[0]} lists them`
      : '; muster get integration lists them';
  if (name !== 'kind') return '';
  const kind = kindOf(command.args[0] ?? '');
  return kind ? `; muster get ${kind} lists them` : `; the kinds are ${kinds.join(', ')}`;
}

/** The command that the arguments name, as far as they do. */
const commandIn = (program: Command, argv: readonly string[]): Command =>
  argv.reduce((command, word) => command.commands.find((inner) => inner.name() === word) ?? command, program);

const fullName = (command: Command): string =>
  command.parent ? `${fullName(command.parent)} ${command.name()}` : command.name();
