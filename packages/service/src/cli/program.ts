import { Command, Option } from 'commander';
import { version } from '../lib/version.ts';
import { addDeleteCommand } from './agent-delete.ts';
import { addAgentCommands } from './agents.ts';
import { addAuditCommand } from './audit.ts';
import { addBudgetCommand } from './budgets.ts';
import { addCatalogCommands } from './catalog.ts';
import { addChangeRequestCommands } from './change-requests.ts';
import { addCheckoutCommand } from './checkout.ts';
import { addCompletionCommands } from './completion.ts';
import { errorData, errorLine, exitCodeMeanings, exitCodeOf } from './errors.ts';
import { addIntegrationCommands } from './integrations.ts';
import { addKeyCommands } from './keys.ts';
import { addLoginCommands } from './login.ts';
import { addLogsCommand } from './logs.ts';
import { addMemberCommands } from './members.ts';
import { addNotificationCommands } from './notifications.ts';
import { outputFormats, printable } from './output.ts';
import { addQueueCommands } from './queue.ts';
import { addHistoryCommands } from './resource-history.ts';
import { addRunCommands } from './runs.ts';
import { addScheduleCommands } from './schedules.ts';
import { addServerCommands } from './server.ts';
import { addSignInCommands } from './sign-ins.ts';
import { addTaskCommands } from './tasks.ts';
import { addThreadCommands } from './threads.ts';
import { addTriggerCommands } from './triggers.ts';
import { addUsageCommand } from './usage.ts';
import { addWaitCommand } from './wait.ts';

export function buildProgram(): Command {
  const program = new Command('muster')
    .description('A control plane for fleets of coding agents.')
    .version(version, '-V, --version', 'print the version')
    .option(
      '--url <url>',
      'URL of the service (default: MUSTER_URL, then muster login, then the service that runs here)',
    )
    .addOption(new Option('-o, --output <format>', 'output format').choices(outputFormats))
    .option('--no-color', 'no colours')
    .configureHelp({ showGlobalOptions: true })
    .helpOption('-h, --help', 'show help')
    // main.ts prints errors, each in one line.
    .configureOutput({ outputError: () => {} })
    .exitOverride((outcome) => {
      if (outcome.exitCode === 0) process.exit();
      throw outcome;
    });
  program.commandsGroup('Agents:');
  addAgentCommands(program);
  addDeleteCommand(program);
  addLogsCommand(program);
  addRunCommands(program);
  addCheckoutCommand(program);
  addQueueCommands(program);
  addTaskCommands(program);
  addThreadCommands(program);
  addChangeRequestCommands(program);
  addWaitCommand(program);
  addUsageCommand(program);
  addBudgetCommand(program);
  addCatalogCommands(program.commandsGroup('Catalog:'));
  addHistoryCommands(program);
  addAuditCommand(program);
  addIntegrationCommands(program);
  addNotificationCommands(program);
  addScheduleCommands(program);
  addTriggerCommands(program);
  addSignInCommands(program);
  addServerCommands(program.commandsGroup('Server:'));
  addMemberCommands(program);
  addLoginCommands(program.commandsGroup('You and your shell:'));
  addKeyCommands(program);
  addCompletionCommands(program);
  for (const command of [program, ...program.commands.filter(({ commands }) => commands.length > 0)])
    command.helpCommand('help [command]', 'show help for a command');
  return program.addHelpText('after', () => {
    const lines = exitCodeMeanings.map(({ code, meaning }) => `  ${String(code).padStart(3)}  ${meaning}`);
    return `\nExit codes:\n${lines.join('\n')}`;
  });
}

/** Prints the error in one line, as the output format has it. Returns the exit code. */
export function reportError(error: unknown, program: Command, argv: readonly string[]): number {
  const line = printable(errorLine(error, program, argv));
  if (line !== '')
    process.stderr.write(
      wantsData(argv) ? `${JSON.stringify(errorData(error, line))}\n` : `muster: ${line}\n`,
    );
  return exitCodeOf(error);
}

/** Read from the arguments, because the error may be one of them. */
const wantsData = (argv: readonly string[]): boolean =>
  argv.some((word, at) => {
    const [, joined] = /^(?:--output=|-o=?)(json|yaml)$/.exec(word) ?? [];
    return joined !== undefined || (/^(-o|--output)$/.test(word) && /^(json|yaml)$/.test(argv[at + 1] ?? ''));
  });
