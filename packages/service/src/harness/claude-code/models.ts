/** What Claude Code makes of its aliases; a test compares them with the installed one. */
const aliases: Readonly<Record<string, string>> = {
  opus: 'claude-opus-5-5',
  sonnet: 'claude-sonnet-5-5',
  haiku: 'claude-haiku-5-5',
};

/** The model as Claude Code is told: never by an alias, so that the gateway knows what it will ask for. */
export const harnessModel = (model: string): string => aliases[model] ?? model;

/** The model as the provider is told: a suffix that asks for a longer context becomes a header. */
export const wireModel = (model: string): string => harnessModel(model).replace(/\[1m\]$/, '');
