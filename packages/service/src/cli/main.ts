import { Command } from 'commander';
import { EmbeddedPostgresUnavailableError, FolderInUseError } from '../store/embedded/embedded-postgres.ts';
import { ConfigError, readConfig } from './config.ts';
import { createOperator } from './operator.ts';
import { serve } from './serve.ts';

const program = new Command('muster')
  .description('A control plane for fleets of coding agents.')
  .version('0.1.0');

program
  .command('serve')
  .description('run the API, a runner and the embedded PostgreSQL (configured by MUSTER_* variables)')
  .action(() => serve(readConfig(process.env), process.env));

program
  .command('operator')
  .description("operators, who may cross tenants; only on the server's own machine")
  .command('create')
  .description('make an operator key and print it once')
  .option('--account <name>', 'whose key it is', 'operator')
  .action((options: { account: string }) => createOperator(readConfig(process.env), options.account));

const expected = [ConfigError, FolderInUseError, EmbeddedPostgresUnavailableError];

program.parseAsync().catch((error: unknown) => {
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  const isExpected = expected.some((type) => error instanceof type);
  process.stderr.write(`muster: ${isExpected ? message : (stack ?? message)}\n`);
  process.exit(1);
});
