import type { Command } from 'commander';
import { isRunnerProcess } from '../lib/service-process.ts';
import type { ExportFlags, ImportFlags } from './archive.ts';
import { addCommand, type Flags, type Invocation } from './command.ts';
import type { OutputFormat } from './output.ts';
import { addPoolRunnerCommands } from './pool-runners.ts';
import { withSecretFiles } from './variables.ts';

const tenantArgument = ['<tenant>', 'such as codehost_app/acme'] as const;

/** Commands for the operator's machines. Their actions are imported when used, because they load the whole service. */
export function addServerCommands(program: Command): void {
  addServe(program);
  addPoolRunnerCommands(addRunner(program));
  addOperator(program);
  const migrateText = 'migrate the database to the schema of this version; uses the variables of serve';
  addCommand(program, 'migrate', migrateText, async (invocation: Invocation) =>
    (await import('./migrate.ts')).migrateStore(invocation),
  );
  addTenant(program);
  addArchive(program);
}

const addServe = (program: Command): Command =>
  program
    .command('serve')
    .description('run the API, a runner and the embedded PostgreSQL (configured by MUSTER_* variables)')
    .option(
      '--workers <n>',
      'processes that serve the port (MUSTER_WORKERS); default: one for two processors, at most 4',
    )
    .action(async (_, command: Command) => {
      if (isRunnerProcess(process.env))
        return (await import('./own-runner.ts')).runOwnRunner(withSecretFiles(process.env));
      const { workers, output } = command.optsWithGlobals<Flags<'workers'> & { output?: OutputFormat }>();
      if (workers) (await import('./config.ts')).workersIn({ '--workers': workers }, '--workers');
      const env = { ...process.env, ...(workers && { MUSTER_WORKERS: workers }) };
      await (await import('./serve.ts')).serve(env, output);
    });

const addRunner = (program: Command): Command =>
  program
    .command('runner')
    .description(
      'run agents for a service on this machine (configured by provider keys and MUSTER_* variables)',
    )
    .option('--key <key>', 'an API key of role runner (MUSTER_API_KEY)')
    .option('--pool <name>', "the pool to serve; must be the key's pool")
    .option('--name <name>', 'name of the runner; agents stay with the runner of this name')
    .option('--data <folder>', "folder for the agents' files and mirrors of repositories")
    .option('--idle-exit <duration>', 'end when it had no run for this long, such as 10m')
    .option('--max-runs <n>', 'end after this many runs')
    .action(async (_, command: Command) =>
      (await import('./runner.ts')).runRunner(command.optsWithGlobals(), withSecretFiles(process.env)),
    );

function addOperator(program: Command): void {
  const operator = program
    .command('operator')
    .description("create operator keys, which may access all tenants; only on the server's own machine");
  addCommand(
    operator,
    'create',
    'create an operator key and print it once',
    async (invocation: Invocation<Flags<'account'>>) =>
      (await import('./operators.ts')).createOperator(invocation),
  ).option('--account <name>', 'account of the key', 'operator');
}

function addTenant(program: Command): void {
  const tenant = program
    .command('tenant')
    .description('list and create tenants, and close one to move it; uses the variables of serve');
  addCommand(tenant, 'ls', 'list all tenants', async (invocation: Invocation) =>
    (await import('./tenants.ts')).listAllTenants(invocation),
  );
  const createText = 'create a tenant, and print the key of its first admin once';
  addCommand(tenant, 'create', createText, async (invocation: Invocation<Flags<'account'>>, name: string) =>
    (await import('./tenants.ts')).createTenant(invocation, name),
  )
    .argument(...tenantArgument)
    .option('--account <name>', 'account of the key', 'admin');
  const closeText = 'let runs end, and refuse everything else that would change the tenant';
  addCommand(tenant, 'close', closeText, async (invocation: Invocation, name: string) =>
    (await import('./tenants.ts')).closeTenant(invocation, name),
  ).argument(...tenantArgument);
  const openText = 'open a closed tenant again; only if it was not imported anywhere';
  addCommand(tenant, 'open', openText, async (invocation: Invocation, name: string) =>
    (await import('./tenants.ts')).openTenant(invocation, name),
  ).argument(...tenantArgument);
}

function addArchive(program: Command): void {
  const exportText =
    'export the database, or one closed tenant, to a file; uses the variables of serve, also while it runs';
  addCommand(program, 'export', exportText, async (invocation: Invocation<ExportFlags>) =>
    (await import('./archive.ts')).exportArchive(invocation),
  )
    .option('-f, --file <path>', 'output file; - or none: standard output')
    .option('--tenant <tenant>', 'only this tenant, such as codehost_app/acme')
    .option('--force', 'replace the file');
  const importText =
    'import an exported file into an empty database, or a tenant into one in use; uses the variables of serve';
  addCommand(program, 'import', importText, async (invocation: Invocation<ImportFlags>) =>
    (await import('./archive.ts')).importArchive(invocation),
  )
    .requiredOption('-f, --file <path>', 'input file; - is standard input')
    .option('--tenant <tenant>', 'the tenant in the file, which is added to this installation');
}
