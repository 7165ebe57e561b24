import { MusterError } from '@muster/sdk';
import { ConfigError } from './environment.ts';
import { CommandError, type ExitCode, exitCodes } from './exit-codes.ts';
import { buildProgram } from './program.ts';

/** Errors with a sentence of their own; of any other the trace is worth more. */
const expected = [
  'ConfigError',
  'CommandError',
  'ConnectionError',
  'FolderInUseError',
  'ArchiveError',
  'EmbeddedPostgresUnavailableError',
];

buildProgram()
  .parseAsync()
  .catch((error: unknown) => {
    const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
    const isExpected = error instanceof MusterError || expected.includes(name);
    process.stderr.write(`muster: ${isExpected ? message : (stack ?? message)}\n`);
    process.exit(exitCodeOf(error));
  });

const byHttpStatus: Readonly<Record<number, ExitCode>> = {
  400: exitCodes.usage,
  401: exitCodes.denied,
  403: exitCodes.denied,
  404: exitCodes.notFound,
  409: exitCodes.conflict,
  503: exitCodes.unreachable,
};

function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CommandError) return error.exitCode;
  if (error instanceof ConfigError) return exitCodes.failed;
  if (error instanceof MusterError) return byHttpStatus[error.httpStatus] ?? exitCodes.failed;
  return error instanceof Error && error.name === 'ConnectionError'
    ? exitCodes.unreachable
    : exitCodes.failed;
}
