import type { Command } from 'commander';
import { Argument } from 'commander';
import { completionScript, type Shell, shells } from '../completion.ts';
import { lazily } from '../lazily.ts';

/** What makes the command line itself convenient. */
export function addShellCommands(program: Command): void {
  program
    .command('login')
    .description('remember a service (--url) and a key of it')
    .option('--key-stdin', 'read the key from standard input')
    .option('--forget', 'forget it again')
    .action(lazily(() => import('../commands/login.ts')));

  program
    .command('whoami')
    .description('who you are to the service')
    .action(lazily(() => import('../commands/whoami.ts')));

  program
    .command('open')
    .description('the page of an agent, or the front page, in your browser, signed in')
    .argument('[agent]')
    .action(lazily(() => import('../commands/open.ts')));

  program
    .command('mcp')
    .description('the tools of the service over MCP, for an editor or a chat client that starts a program')
    .action(lazily(() => import('../commands/mcp.ts')));

  program
    .command('config')
    .description('what is in force here, without secrets')
    .action(lazily(() => import('../commands/config.ts')));

  program
    .command('doctor')
    .description(
      'what is installed here, which backends the service has ready, what is missing, and what to do',
    )
    .action(lazily(() => import('../commands/doctor.ts')));

  program
    .command('completion')
    .description('a script for your shell: eval "$(muster completion bash)"')
    .addArgument(new Argument('<shell>').choices(shells))
    .action((shell: Shell) => {
      process.stdout.write(completionScript(program, shell));
    });
}
