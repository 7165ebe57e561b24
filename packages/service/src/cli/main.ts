import { buildProgram } from './program.ts';

// Whoever reads what we print may have had enough of it, as `head` has.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit();
  throw error;
});

const program = buildProgram();
program.parseAsync().catch(async (error: unknown) => {
  const { complaintOf, exitCodeOf } = await import('./failure.ts');
  const complaint = complaintOf(error, program, process.argv.slice(2));
  if (complaint !== '') process.stderr.write(`muster: ${complaint}\n`);
  process.exit(exitCodeOf(error));
});
