import { Command } from 'commander';
import { FolderInUseError } from '../store/embedded/embedded-postgres.ts';
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

program.parseAsync().catch((error: unknown) => {
  const isExpected = error instanceof ConfigError || error instanceof FolderInUseError;
  process.stderr.write(
    `muster: ${isExpected ? error.message : error instanceof Error ? error.stack : String(error)}\n`,
  );
  process.exit(1);
});
