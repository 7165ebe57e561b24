import { Argument, Command, Option } from 'commander';
import { version } from '../lib/version.ts';
import { addAgentCommands } from './agents.ts';
import { addCatalogCommands } from './catalog.ts';
import { addChangeRequestCommands } from './change-requests.ts';
import { errorLine, exitCodeMeanings, exitCodeOf } from './errors.ts';
import { addIntegrationCommands } from './integrations.ts';
import { addLoginCommands } from './login.ts';
import { addLogsCommand } from './logs.ts';
import { outputFormats, printable } from './output.ts';
import { addQueueCommands } from './queue.ts';
import { addRunCommands } from './runs.ts';
import { addServerCommands } from './server.ts';
import { addTaskCommands } from './tasks.ts';
import { addThreadCommands } from './threads.ts';
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
  addLogsCommand(program);
  addRunCommands(program);
  addQueueCommands(program);
  addTaskCommands(program);
  addThreadCommands(program);
  addChangeRequestCommands(program);
  addWaitCommand(program);
  addCatalogCommands(program.commandsGroup('Catalog:'));
  addIntegrationCommands(program);
  addServerCommands(program.commandsGroup('Server:'));
  addLoginCommands(program.commandsGroup('You and your shell:'));
  addCompletionCommand(program);
  program.helpCommand('help [command]', 'show help for a command');
  return program.addHelpText('after', () => {
    const lines = exitCodeMeanings.map(({ code, meaning }) => `  ${String(code).padStart(3)}  ${meaning}`);
    return `\nExit codes:\n${lines.join('\n')}`;
  });
}

function addCompletionCommand(program: Command): void {
  program
    .command('completion')
    .description('print a completion script for your shell: eval "$(muster completion bash)"')
    .addArgument(new Argument('<shell>').choices(shells))
    .action((shell: Shell) => {
      process.stdout.write(completionScript(program, shell));
    });
}

const shells = ['bash', 'zsh'] as const;
type Shell = (typeof shells)[number];

/** The words that may follow each command; `''` is muster itself. */
function wordsAfterCommands(
  command: Command,
  outer: readonly string[] = [],
  path = '',
): ReadonlyMap<string, readonly string[]> {
  const flags = [...flagsOf(command), ...outer];
  const choices = command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []);
  const offered = [...command.commands.map((inner) => inner.name()), ...choices, ...flags, '--help'];
  return new Map([
    [path, offered],
    ...command.commands.flatMap((inner) => [
      ...wordsAfterCommands(inner, flags, `${path} ${inner.name()}`.trim()),
    ]),
  ]);
}

const flagsOf = ({ options }: Command): string[] =>
  options.flatMap(({ long, short }) => [long, short].filter((flag) => flag != null));

/** The values of flags that have a list of choices. */
function wordsAfterFlags(command: Command): [flags: string, words: readonly string[]][] {
  return [
    ...command.options.flatMap(({ long, short, argChoices }): [string, readonly string[]][] =>
      argChoices ? [[[long, short].filter((flag) => flag != null).join('|'), argChoices]] : [],
    ),
    ...command.commands.flatMap(wordsAfterFlags),
  ];
}

/** A script that completes commands and flags, for bash, and for zsh by its bash emulation. */
function completionScript(program: Command, shell: Shell): string {
  const commands = [...wordsAfterCommands(program)].map(
    ([path, words]) => `    '${path}') words='${words.join(' ')}' ;;`,
  );
  const flags = wordsAfterFlags(program).map(([flag, words]) => `    ${flag}) words='${words.join(' ')}' ;;`);
  const zsh = `autoload -Uz compinit bashcompinit
(( $+functions[compdef] )) || compinit -i
bashcompinit
`;
  return `${shell === 'zsh' ? zsh : ''}_muster_words() {
  local words
  case "$1" in
${commands.join('\n')}
    *) return 1 ;;
  esac
  printf '%s' "$words"
}
_muster() {
  local command='' word words at
  for ((at = 1; at < COMP_CWORD; at++)); do
    word="\${COMP_WORDS[at]}"
    _muster_words "\${command:+$command }$word" >/dev/null && command="\${command:+$command }$word"
  done
  case "\${COMP_WORDS[COMP_CWORD-1]}" in
${flags.join('\n')}
    *) words="$(_muster_words "$command")" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _muster muster
`;
}

/** Prints the error in one line. Returns the exit code. */
export function reportError(error: unknown, program: Command, argv: readonly string[]): number {
  const line = errorLine(error, program, argv);
  if (line !== '') process.stderr.write(`muster: ${printable(line)}\n`);
  return exitCodeOf(error);
}
