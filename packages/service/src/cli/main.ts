import { Command } from 'commander';
import { EmbeddedPostgresUnavailableError, FolderInUseError } from '../store/embedded/embedded-postgres.ts';
import { readConfig } from './config.ts';
import { ConfigError } from './environment.ts';
import { createOperator } from './operator.ts';
import { type RunnerFlags, run } from './runner.ts';
import { serve } from './serve.ts';
import { build } from './start-runner.ts';

const program = new Command('muster')
  .description('A control plane for fleets of coding agents.')
  .version(build);

program
  .command('serve')
  .description('run the API, a runner and the embedded PostgreSQL (configured by MUSTER_* variables)')
  .action(() => serve(readConfig(process.env), process.env));

program
  .command('runner')
  .description('run agents for a service on this machine (provider keys and MUSTER_* variables as for serve)')
  .option('--url <url>', 'where the service is (MUSTER_URL)')
  .option('--key <key>', 'a token of the role runner (MUSTER_API_KEY)')
  .option('--pool <name>', "the pool to serve; it has to be the token's")
  .option('--name <name>', 'how it is known; agents live where their runner has this name')
  .option('--data <folder>', 'where agents work and repositories are mirrored')
  .action((flags: RunnerFlags) => run(flags, process.env));

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
