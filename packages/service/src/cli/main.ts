import { buildProgram, reportError } from './program.ts';

// `head` and `less` close the pipe when they have read enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit();
  throw error;
});

const program = buildProgram();
program.parseAsync().catch((error: unknown) => {
  process.exit(reportError(error, program, process.argv.slice(2)));
});
