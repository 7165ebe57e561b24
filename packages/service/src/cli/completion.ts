import { MusterClient } from '@muster/sdk';
import { backendFacts, kindOf, kinds, pathOf, rehearsalModels, usageKeys } from '@muster/sdk/contract';
import { Argument, type Command, type Option } from 'commander';
import { findConnection } from './connection.ts';
import { withSecretFiles } from './variables.ts';

/** Every script asks `muster complete` for the words that may come next, so that shells offer the same. */
const scripts = {
  bash: `_muster() {
  local IFS=$'\\n'
  COMPREPLY=($(muster complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _muster muster
`,
  zsh: `_muster() {
  local -a found
  found=("\${(@f)$(muster complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found" ]]; then compadd -a found; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }
compdef _muster muster
`,
  fish: `function __muster_complete
  set -l words (commandline -opc) (commandline -ct)
  muster complete -- $words[2..-1] 2>/dev/null
end
complete -c muster -a '(__muster_complete)'
`,
} as const;

const shells = Object.keys(scripts) as (keyof typeof scripts)[];

export function addCompletionCommands(program: Command): void {
  program
    .command('completion')
    .description('print a completion script for your shell: eval "$(muster completion bash)"')
    .addArgument(new Argument('<shell>').choices(shells))
    .addHelpText('after', '\nfish: muster completion fish > ~/.config/fish/completions/muster.fish')
    .action((shell: keyof typeof scripts) => {
      process.stdout.write(scripts[shell]);
    });
  program
    .command('complete', { hidden: true })
    .argument('[words...]')
    .action(async (words: string[]) => {
      // Looking for names needs a service. Without one, commands and flags are still offered.
      const found = await wordsAfter(program, words, (list) => namesOf(list).catch(() => []));
      process.stdout.write(found.map((word) => `${word}\n`).join(''));
    });
}

/** A list of the service: `agents`, `all-agents` with those that have ended, `models`, or a kind of the catalog. */
type Lookup = (list: string) => Promise<readonly string[]>;

/** The words that may complete the last one. */
async function wordsAfter(program: Command, words: readonly string[], lookUp: Lookup): Promise<string[]> {
  const { command, given, option } = placeIn(program, words.slice(0, -1));
  const last = words.at(-1) ?? '';
  const offered = option
    ? await valuesOf(option, lookUp)
    : [...(await argumentsOf(command, given, lookUp)), ...flagsOf(command)];
  return [...new Set(offered)].filter((word) => word.startsWith(last));
}

interface Place {
  readonly command: Command;
  /** The arguments before this place. */
  readonly given: readonly string[];
  /** The option whose value comes next. */
  readonly option: Option | undefined;
}

function placeIn(program: Command, words: readonly string[]): Place {
  let command = program;
  let option: Option | undefined;
  const given: string[] = [];
  for (const word of words) {
    const inner = given.length === 0 && !option && command.commands.find((each) => each.name() === word);
    if (option) option = undefined;
    else if (word.startsWith('-'))
      option = optionsOf(command).find(
        (each) => (each.long === word || each.short === word) && takesValue(each),
      );
    else if (inner) command = inner;
    else given.push(word);
  }
  return { command, given, option };
}

const takesValue = ({ required, optional }: Option): boolean => required || optional;

const optionsOf = (command: Command): Option[] => [
  ...command.options,
  ...(command.parent ? optionsOf(command.parent) : []),
];

const flagsOf = (command: Command): string[] => [
  ...optionsOf(command).flatMap(({ long, short }) => [long, short].filter((flag) => flag != null)),
  '--help',
];

/** Other options name a resource if they are called like its kind. */
const optionLists: Readonly<Record<string, string>> = { '--model': 'models', '--below': 'all-agents' };

const usageNames = [...usageKeys, 'label:'];
const optionWords: Readonly<Record<string, readonly string[]>> = {
  '--by': usageNames,
  '--filter': usageNames.map((name) => (name.endsWith(':') ? name : `${name}=`)),
};

async function valuesOf({ long, argChoices }: Option, lookUp: Lookup): Promise<readonly string[]> {
  const list = optionLists[long ?? ''] ?? kindOf(long?.slice(2) ?? '');
  return argChoices ?? optionWords[long ?? ''] ?? (list ? lookUp(list) : []);
}

/** Commands for agents that work; the others also read, reopen or delete those that have ended. */
const forLiveAgents = ['send', 'stop', 'retry', 'kill', 'wait', 'queue', 'tasks'];

async function argumentsOf(command: Command, given: readonly string[], lookUp: Lookup): Promise<string[]> {
  const inner = given.length === 0 ? command.commands.map((each) => each.name()) : [];
  const names = inner.filter((name) => name !== 'complete');
  // A command such as `queue` lists without a subcommand.
  const own =
    names.length > 0
      ? command.commands.find((each) => each.name() === 'ls' || each.name() === 'list')
      : command;
  const all = own?.registeredArguments ?? [];
  const argument = all[given.length] ?? (all.at(-1)?.variadic ? all.at(-1) : undefined);
  if (!own || !argument) return names;
  const list = listOf(own, argument.name(), given);
  return [...names, ...(argument.argChoices ?? []), ...(list ? await lookUp(list) : [])];
}

function listOf(command: Command, argument: string, [first = '']: readonly string[]): string | undefined {
  const { parent } = command;
  if (argument === 'agent' || argument === 'agents') {
    const isForLive = [command, parent].some((each) => each && forLiveAgents.includes(each.name()));
    return isForLive ? 'agents' : 'all-agents';
  }
  if (argument === 'kind') return 'kinds';
  if (argument !== 'name') return kindOf(argument);
  return command.registeredArguments[0]?.name() === 'kind' ? kindOf(first) : kindOf(parent?.name() ?? '');
}

/** A shell waits for the words, so nothing is retried. */
const timeoutMs = 3_000;

async function namesOf(list: string): Promise<readonly string[]> {
  if (list === 'kinds') return kinds;
  const { nodeFetch } = await import('../lib/node-fetch.ts');
  const connection = findConnection({}, withSecretFiles(process.env), process.cwd());
  const client = new MusterClient({ ...connection, fetch: nodeFetch, retries: { tries: 1 } });
  const signal = AbortSignal.timeout(timeoutMs);
  if (list === 'models') {
    const [{ models }, { entries }] = await Promise.all([
      client.service({ signal }),
      client.list({ allDepths: true, includeTerminal: true }, { signal }),
    ]);
    // Other names are those that agents use, and those of the operator.
    const shortNames = Object.values(backendFacts).flatMap(({ shortNames }) => shortNames);
    const used = entries.map(({ model }) => model);
    return [...shortNames, ...rehearsalModels, ...models.map(({ model }) => model), ...used];
  }
  if (list === 'agents' || list === 'all-agents') {
    const filter = { allDepths: true, includeTerminal: list === 'all-agents' };
    const { entries } = await client.list(filter, { signal });
    return entries.map(({ agentId }) => pathOf(agentId));
  }
  const { entries } = await client.catalog.list(list, { signal });
  return entries.map(({ name }) => name);
}
