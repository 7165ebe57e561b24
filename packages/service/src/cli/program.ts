import { Command, Option } from 'commander';
import { exitCodeMeanings } from './exit-codes.ts';
import { outputForms } from './output-forms.ts';
import { addAgentCommands } from './program/agents.ts';
import { addCatalogCommands } from './program/catalog.ts';
import { addServerCommands } from './program/server.ts';
import { addShellCommands } from './program/shell.ts';
import { version } from './version.ts';

/** Every command with its words and flags; what it does is loaded when it is used. */
export function buildProgram(): Command {
  const program = new Command('muster')
    .description('A control plane for fleets of coding agents.')
    .version(version)
    .option(
      '--url <url>',
      'the service (MUSTER_URL; else the one of muster login, else the one that runs here)',
    )
    .addOption(new Option('-o, --output <form>', 'how to answer').choices(outputForms))
    .option('--no-color', 'no colours')
    .configureHelp({ showGlobalOptions: true })
    // A mistake is told in one line, like every other failure.
    .configureOutput({ outputError: () => {} })
    .exitOverride((outcome) => {
      if (outcome.exitCode === 0) process.exit();
      throw outcome;
    });
  addAgentCommands(program.commandsGroup('Agents:'));
  addCatalogCommands(program.commandsGroup('Catalog:'));
  addServerCommands(program.commandsGroup('Server:'));
  addShellCommands(program.commandsGroup('You and your shell:'));
  program.helpCommand('help [command]', 'how a command is used');
  return program.addHelpText('after', exitCodesHelp);
}

function exitCodesHelp(): string {
  const lines = exitCodeMeanings.map(({ code, meaning }) => `  ${String(code).padStart(3)}  ${meaning}`);
  return `\nExit codes:\n${lines.join('\n')}`;
}
