import type { Command } from 'commander';

export const shells = ['bash', 'zsh'] as const;
export type Shell = (typeof shells)[number];

type Words = ReadonlyMap<string, readonly string[]>;

/** Words that may follow, by the command before them: `''` is muster itself. */
function wordsAfterCommands(command: Command, outer: readonly string[] = [], path = ''): Words {
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

/** What may follow a flag that takes one of a few words. */
function wordsAfterFlags(command: Command): [flags: string, words: readonly string[]][] {
  return [
    ...command.options.flatMap(({ long, short, argChoices }): [string, readonly string[]][] =>
      argChoices ? [[[long, short].filter((flag) => flag != null).join('|'), argChoices]] : [],
    ),
    ...command.commands.flatMap(wordsAfterFlags),
  ];
}

/** A script that completes commands and flags; bash and zsh read the same one, zsh by its bash emulation. */
export function completionScript(program: Command, shell: Shell): string {
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
