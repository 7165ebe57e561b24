import type { Command } from 'commander';

export const shells = ['bash', 'zsh'] as const;
export type Shell = (typeof shells)[number];

/** Words that may follow, by the command before them: `''` is muster itself. */
function wordsOf(command: Command, path = ''): Map<string, string[]> {
  const flags = command.options.flatMap(({ long, short }) =>
    [long, short].filter((flag) => flag !== undefined),
  );
  const words = new Map([[path, [...command.commands.map((one) => one.name()), ...flags]]]);
  for (const inner of command.commands) {
    for (const [below, offered] of wordsOf(inner, `${path} ${inner.name()}`.trim()))
      words.set(below, offered);
  }
  return words;
}

/** A script that completes commands and flags; bash and zsh read the same one, zsh by its bash emulation. */
export function completionScript(program: Command, shell: Shell): string {
  const cases = [...wordsOf(program)].map(([path, words]) => `    '${path}') words='${words.join(' ')}' ;;`);
  return [
    ...(shell === 'zsh' ? ['autoload -Uz bashcompinit && bashcompinit'] : []),
    '_muster() {',
    "  local path='' word words at",
    '  for ((at = 1; at < COMP_CWORD; at++)); do',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the shell's.
    '    word="${COMP_WORDS[at]}"',
    '    case "$word" in -*) continue ;; esac',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the shell's.
    '    _muster_words "${path:+$path }$word" >/dev/null && path="${path:+$path }$word"',
    '  done',
    '  words="$(_muster_words "$path")"',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the shell's.
    '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
    '}',
    '_muster_words() {',
    '  local words',
    '  case "$1" in',
    ...cases,
    '    *) return 1 ;;',
    '  esac',
    '  printf "%s" "$words"',
    '}',
    'complete -F _muster muster',
    '',
  ].join('\n');
}
