import { type Command, Option } from 'commander';
import { lazily } from '../lazily.ts';
import { several } from './several.ts';

const why = ['--justification <text>', 'why, for the audit record; operators must say'] as const;

/** Resources of the catalog as files and documents. */
export function addCatalogCommands(program: Command): void {
  program
    .command('apply')
    .description('write resources from YAML or Markdown files or folders; shows what changes first')
    .requiredOption(
      '-f, --file <path>',
      'a file, a folder, or - for standard input; may be repeated',
      several,
    )
    .option('--dry-run', 'only show what would change')
    .option(...why)
    .action(lazily(() => import('../commands/apply.ts')));

  program
    .command('get')
    .description('the resources of a kind, or one of them as its file would be')
    .argument(
      '<kind>',
      'workspace, persona, environment, profile, vm-profile, pool, token, share-link, integration',
    )
    .argument('[name]')
    .action(lazily(() => import('../commands/get.ts')));

  program
    .command('edit')
    .description('change a resource in your editor ($VISUAL, $EDITOR)')
    .argument('<kind>')
    .argument('<name>')
    .option(...why)
    .action(lazily(() => import('../commands/edit.ts')));

  program
    .command('delete')
    .description('delete a resource')
    .argument('<kind>')
    .argument('<name>')
    .option('-y, --yes', 'do not ask')
    .option(...why)
    .action(lazily(() => import('../commands/delete.ts')));

  program
    .command('history')
    .description('who wrote a resource, when and why')
    .argument('<kind>')
    .argument('<name>')
    .action(lazily(() => import('../commands/history.ts')));

  const token = program.command('token').description('keys');
  token
    .command('create')
    .description('make a key and print it once')
    .argument('<name>')
    .addOption(
      new Option('--role <role>', 'what it may do')
        .choices(['viewer', 'member', 'admin', 'operator', 'runner'])
        .default('member'),
    )
    .option('--account <name>', 'whose it is; yours when absent')
    .option('--pool <name>', 'of a runner: the pool it serves')
    .option('--expires <time>', 'after so long, such as 90d')
    .option(...why)
    .action(lazily(() => import('../commands/token-create.ts')));
  token
    .command('revoke')
    .description('end a key')
    .argument('<name>')
    .option(...why)
    .action(lazily(() => import('../commands/token-revoke.ts')));
}
