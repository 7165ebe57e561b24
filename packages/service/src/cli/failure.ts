import {
  ConnectionError,
  MusterError,
  NotFoundError,
  type StatusName,
  UnauthenticatedError,
} from '@muster/sdk';
import { kindOf, kinds } from '@muster/sdk/contract';
import { type Command, CommanderError } from 'commander';
import { CommandError, type ExitCode, exitCodes } from './exit-codes.ts';
import { printable } from './printable.ts';

/** Errors with a sentence of their own; of any other the trace is worth more. */
const expected = [
  'ConfigError',
  'CommandError',
  'ConnectionError',
  'FolderInUseError',
  'ArchiveError',
  'EmbeddedPostgresUnavailableError',
];

const byStatus: Readonly<Partial<Record<StatusName, ExitCode>>> = {
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
  if (error instanceof MusterError) return byStatus[error.status] ?? exitCodes.failed;
  return error instanceof ConnectionError ? exitCodes.unreachable : exitCodes.failed;
}

/** What went wrong and what to do next, in one line. Empty when commander has shown help instead. */
export function complaintOf(error: unknown, program: Command, words: readonly string[]): string {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  const command = commandOf(program, words);
  if (error instanceof CommanderError) return usageComplaint(error, command);
  const isExpected = error instanceof MusterError || expected.includes(name);
  if (!isExpected) return stack ?? message;
  return printable(`${message}${nextStep(error, command)}`.replace(/\s*\n\s*/g, ' '));
}

function usageComplaint({ code, message }: CommanderError, command: Command): string {
  if (code === 'commander.help') return '';
  const text = message.replace(/^error: |\.$/g, '').replace(/\s*\n\s*/g, ' ');
  return /did you mean/i.test(text) ? text : `${text}; ${pathOf(command)} --help shows how`;
}

function nextStep(error: unknown, command: Command): string {
  if (error instanceof ConnectionError)
    return ': is it running? muster serve starts one here, muster config shows where the address comes from';
  if (error instanceof UnauthenticatedError) return '; set MUSTER_API_KEY, or run muster login';
  if (!(error instanceof NotFoundError)) return '';
  const [first] = command.registeredArguments;
  if (first?.name().startsWith('agent')) return '; muster ps --all shows every agent of yours';
  if (first?.name() !== 'kind') return '';
  const kind = kindOf(command.args[0] ?? '');
  return kind ? `; muster get ${kind} shows what there is` : `; there are ${kinds.join(', ')}`;
}

/** The command that was meant, as far as it was typed right. */
function commandOf(program: Command, words: readonly string[]): Command {
  return words.reduce(
    (command, word) => command.commands.find((inner) => inner.name() === word) ?? command,
    program,
  );
}

const pathOf = (command: Command): string =>
  command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
