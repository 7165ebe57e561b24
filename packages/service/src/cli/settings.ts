import { readFileSync } from 'node:fs';
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

/** What was typed, else a file's, else what is piped in. */
export function messageText(text: string | undefined, file: string | undefined): string {
  if (text !== undefined && file !== undefined)
    throw new CommandError('give the text or --file, not both', exitCodes.usage);
  if (text !== undefined && text !== '-') return text;
  if (file !== undefined && file !== '-') return fileText(file);
  if (text === '-' || file === '-' || process.stdin.isTTY !== true) return readFileSync(0, 'utf8');
  return '';
}

export function fileText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new CommandError(`${file} can't be read: ${(error as Error).message}`, exitCodes.usage);
  }
}
