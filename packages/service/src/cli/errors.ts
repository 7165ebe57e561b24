import {
  ConnectionError,
  MusterError,
  NotFoundError,
  type StatusName,
  UnauthenticatedError,
} from '@muster/sdk';
import { type AgentStatus, kindOf, kinds, phaseReasons, reasonRow } from '@muster/sdk/contract';
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
  timedOut: [124, 'The wait reached its --timeout.'],
  interrupted: [130, 'Interrupted with Ctrl-C.'],
} as const satisfies Record<string, readonly [code: number, meaning: string]>;

type ExitName = keyof typeof table;

export const exitCodes = Object.fromEntries(Object.entries(table).map(([name, [code]]) => [name, code])) as {
  readonly [N in ExitName]: (typeof table)[N][0];
};

/** Those of the table, and those that a wait for an agent has. */
export type ExitCode = number;

const agentMeanings = phaseReasons.flatMap((phaseReason) => {
  const { exit } = reasonRow({ phaseReason });
  return exit ? [[exit[0], `After a wait: ${exit[1]}.`] as const] : [];
});

export const exitCodeMeanings: readonly { readonly code: ExitCode; readonly meaning: string }[] = [
  ...new Map<ExitCode, string>([...Object.values(table), ...agentMeanings]),
]
  .map(([code, meaning]) => ({ code, meaning }))
  .sort((a, b) => a.code - b.code);

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
export const exitCodeOfAgent = (agent: Pick<AgentStatus, 'phase' | 'phaseReason'>): ExitCode =>
  reasonRow(agent).exit?.[0] ?? exitCodes.ok;

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

/** A message to an agent that has ended: the service says that no running agent has this name. */
const isEndedAgent = (error: unknown): error is NotFoundError =>
  error instanceof NotFoundError && error.reason === 'AGENT_ENDED';

export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CommandError) return error.exitCode;
  if (error instanceof CommanderError) return exitCodes.usage;
  if (isEndedAgent(error)) return exitCodes.conflict;
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

/** The same as data, for `-o json` and `-o yaml`: JSON is YAML, too. */
export function errorData(error: unknown, message: string) {
  const exitCode = exitCodeOf(error);
  if (!(error instanceof MusterError)) return { error: { message, exitCode } };
  const { status, httpStatus, details } = error;
  return { error: { message, exitCode, status, httpStatus, details } };
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
  if (isEndedAgent(error))
    return error.metadata.phase === 'PHASE_CANCELED'
      ? "; a killed agent can't be reopened: spawn another"
      : `; reopen it first: muster reopen ${command.args[0]}`;
  if (!(error instanceof NotFoundError)) return '';
  const [first] = command.registeredArguments;
  const name = first?.name() ?? '';
  if (name.startsWith('agent')) return hintAboutAgent(error.message, command.args[0] ?? '');
  if (name === 'change-request') return '; muster cr ls --all lists them';
  if (name === 'integration' || name === 'trigger')
    return command.name() === 'redeliver'
      ? `; muster ${name} deliveries ${command.args[0]} lists them`
      : `; muster get ${name} lists them`;
  if (name !== 'kind') return '';
  const kind = kindOf(command.args[0] ?? '');
  return kind ? `; muster get ${kind} lists them` : `; the kinds are ${kinds.join(', ')}`;
}

/** What is missing may be something of the agent. */
function hintAboutAgent(message: string, agent: string): string {
  if (/ has no task /.test(message)) return `; muster tasks ${agent} lists them`;
  if (/ has no follow-up /.test(message)) return `; muster queue ${agent} lists those that are not delivered`;
  return / has no /.test(message)
    ? ''
    : "; muster ps --all lists all your agents, with --account '*' those of all accounts";
}

/** The command that the arguments name, as far as they do. */
const commandIn = (program: Command, argv: readonly string[]): Command =>
  argv.reduce((command, word) => command.commands.find((inner) => inner.name() === word) ?? command, program);

const fullName = (command: Command): string =>
  command.parent ? `${fullName(command.parent)} ${command.name()}` : command.name();
