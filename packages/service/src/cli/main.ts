import { errorLine, exitCodeOf } from './errors.ts';
import { printable } from './output.ts';
import { buildProgram } from './program.ts';

// `head` and `less` close the pipe when they have read enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit();
  throw error;
});

const program = buildProgram();
program.parseAsync().catch((error: unknown) => {
  const line = errorLine(error, program, process.argv.slice(2));
  if (line !== '') process.stderr.write(`muster: ${printable(line)}\n`);
  process.exit(exitCodeOf(error));
});
