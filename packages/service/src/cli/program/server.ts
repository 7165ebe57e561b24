import type { Command } from 'commander';
import { lazily } from '../lazily.ts';

/** What runs on a machine of the operator's. */
export function addServerCommands(program: Command): void {
  program
    .command('serve')
    .description('run the API, a runner and the embedded PostgreSQL (configured by MUSTER_* variables)')
    .action(async () => (await import('../commands/serve.ts')).run(process.env));

  program
    .command('runner')
    .description(
      'run agents for a service on this machine (provider keys and MUSTER_* variables as for serve)',
    )
    .option('--key <key>', 'a token of the role runner (MUSTER_API_KEY)')
    .option('--pool <name>', "the pool to serve; it has to be the token's")
    .option('--name <name>', 'how it is known; agents live where their runner has this name')
    .option('--data <folder>', 'where agents work and repositories are mirrored')
    .action(async (_, command: Command) =>
      (await import('../commands/runner.ts')).run(command.optsWithGlobals(), process.env),
    );

  program
    .command('operator')
    .description("operators, who may cross tenants; only on the server's own machine")
    .command('create')
    .description('make an operator key and print it once')
    .option('--account <name>', 'whose key it is', 'operator')
    .action(async ({ account }: { account: string }) =>
      (await import('../commands/operator.ts')).run(account, process.env),
    );

  program
    .command('export')
    .description("everything in the store, to a file; with serve's variables, while it runs or not")
    .option('-f, --file <path>', 'where to; - or nothing: standard output')
    .option('--force', 'replace the file')
    .action(lazily(() => import('../commands/export.ts')));

  program
    .command('import')
    .description("fill an empty store with what export wrote; with serve's variables, before its first start")
    .requiredOption('-f, --file <path>', 'where from; - is standard input')
    .action(lazily(() => import('../commands/import.ts')));
}
