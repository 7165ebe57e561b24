import { readFileSync } from 'node:fs';
import { addAbortSignal } from 'node:stream';
import { text as textFrom } from 'node:stream/consumers';
import { CommandError, exitCodes } from './exit-codes.ts';

export interface SettingsFlags {
  readonly persona?: string;
  readonly model?: string;
  readonly effort?: string;
  readonly tier?: string;
  readonly fast?: boolean;
  readonly schema?: string;
}

/** The settings of a spawn or a message as the interface names them. */
export function settingsOf(flags: SettingsFlags) {
  return {
    ...(flags.persona !== undefined && { persona: flags.persona }),
    ...(flags.model !== undefined && { model: flags.model }),
    ...(flags.effort !== undefined && { reasoningEffort: flags.effort }),
    ...(flags.tier !== undefined && { serviceTier: flags.tier }),
    ...(flags.fast !== undefined && { fastMode: flags.fast }),
    ...(flags.schema !== undefined && { outputSchema: fileText(flags.schema) }),
  };
}

export const tasksOf = (subjects: readonly string[] | undefined) =>
  subjects ? { tasks: subjects.map((subject) => ({ subject })) } : {};

/** `key=value` pairs; an empty value removes a label. */
export function labelsOf(pairs: readonly string[] | undefined): { labels?: Record<string, string> } {
  if (!pairs) return {};
  const entries = pairs.map((pair) => {
    const at = pair.indexOf('=');
    if (at < 1) throw new CommandError(`a label is key=value; got "${pair}"`, exitCodes.usage);
    return [pair.slice(0, at), pair.slice(at + 1)] as const;
  });
  return { labels: Object.fromEntries(entries) };
}

/** What was typed, else a file's, else, where a text is needed, what is piped in. */
export async function messageText(
  text: string | undefined,
  file: string | undefined,
  isNeeded: boolean,
  signal: AbortSignal,
): Promise<string> {
  if (text !== undefined && file !== undefined)
    throw new CommandError('give the text or --file, not both', exitCodes.usage);
  const source = text === '-' ? '-' : file;
  if (source !== undefined) return (source === '-' ? await pipedText(signal) : fileText(source)).trim();
  if (text !== undefined) return text.trim();
  return isNeeded && process.stdin.isTTY !== true ? (await pipedText(signal)).trim() : '';
}

/** Whatever comes on standard input, to its end. */
export function pipedText(signal: AbortSignal): Promise<string> {
  if (process.stdin.isTTY) process.stderr.write('(type it, then Ctrl-D)\n');
  return textFrom(addAbortSignal(signal, process.stdin));
}

export function fileText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new CommandError(`${file} can't be read: ${(error as Error).message}`, exitCodes.usage);
  }
}
