import { Command, Option } from 'commander';
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
    .showHelpAfterError('(muster help shows every command)');
  addAgentCommands(program);
  addCatalogCommands(program);
  addServerCommands(program);
  addShellCommands(program);
  return program;
}
