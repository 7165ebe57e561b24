import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { addAbortSignal, Writable } from 'node:stream';
import { text as textFrom } from 'node:stream/consumers';
import { accountIn, type Tenant, tenantNamed } from '@muster/sdk/contract';
import type { Command } from 'commander';
import type { Flags } from './command.ts';
import { usageError } from './errors.ts';

/** Collects the values of an option that may be repeated. */
export const collect = (value: string, before: readonly string[] = []): string[] => [...before, value];

export type SettingsFlags = Flags<'persona' | 'model' | 'effort' | 'tier' | 'schema', 'fast'>;

/** Options that `spawn` and `send` share. */
export const addSettingsOptions = (command: Command): Command =>
  command
    .option('--persona <name>', 'persona')
    .option('--model <name>', 'model')
    .option('--effort <effort>', 'reasoning effort')
    .option('--tier <tier>', 'service tier (Codex)')
    .option('--fast', 'fast mode')
    .option('--no-fast', 'no fast mode')
    .option('--schema <file>', 'JSON Schema of the structured output');

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

/** Parses `key=value` pairs; an empty value removes a label. */
export function labelsOf(pairs: readonly string[] | undefined): { labels?: Record<string, string> } {
  return pairs ? { labels: pairsOf(pairs, 'label') } : {};
}

export function pairsOf(pairs: readonly string[], name: string): Record<string, string> {
  const entries = pairs.map((pair) => {
    const at = pair.indexOf('=');
    if (at < 1) throw usageError(`${name} "${pair}": expected key=value`);
    return [pair.slice(0, at), pair.slice(at + 1)] as const;
  });
  return Object.fromEntries(entries);
}

/** The text of a message: the argument, a file, or, where a text is required, standard input. */
export async function messageText(
  text: string | undefined,
  file: string | undefined,
  isRequired: boolean,
  signal: AbortSignal,
): Promise<string> {
  if (text !== undefined && file !== undefined) throw usageError('use the text or --file, not both');
  const source = text === '-' ? '-' : file;
  if (source !== undefined) return (source === '-' ? await pipedText(signal) : fileText(source)).trim();
  if (text !== undefined) return text.trim();
  return isRequired && process.stdin.isTTY !== true ? (await pipedText(signal)).trim() : '';
}

/** Standard input, read to its end. */
export function pipedText(signal: AbortSignal): Promise<string> {
  if (process.stdin.isTTY) process.stderr.write('(reading standard input; end with Ctrl-D)\n');
  return textFrom(addAbortSignal(signal, process.stdin));
}

export const fileText = (file: string): string => fileBytes(file).toString();

export function fileBytes(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw usageError(`can't read ${file}: ${(error as Error).message}`);
  }
}

export const textFileOption = [
  '-f, --file <file>',
  'read the text from a file; - is standard input',
] as const;

export const justificationOption = [
  '--justification <text>',
  'reason for the audit record; required for operators',
] as const;

export const yesOption = ['-y, --yes', 'do not ask for confirmation'] as const;

export async function isConfirmed(signal: AbortSignal): Promise<boolean> {
  return /^y(es)?$/i.test(await ask('Continue? [y/N] ', signal, { instead: 'use --yes' }));
}

interface AskOptions {
  /** What to do where there is no terminal. */
  readonly instead: string;
  /** Does not show what is typed. */
  readonly isSecret?: boolean;
}

/** Asks for one line in the terminal; empty when the input ends. */
export async function ask(question: string, signal: AbortSignal, options: AskOptions): Promise<string> {
  const { stdin, stderr } = process;
  if (stdin.isTTY !== true)
    throw usageError(`can't ask for input: standard input is not a terminal; ${options.instead}`);
  const output = options.isSecret ? new Writable({ write: (_chunk, _encoding, done) => done() }) : stderr;
  const line = createInterface({ input: stdin, output, terminal: true });
  // After createInterface has switched echo off, so that nothing typed early is shown.
  if (options.isSecret) stderr.write(question);
  // In raw mode Ctrl-C is a key press, not a signal.
  line.once('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  const ended = once(line, 'close', { signal }).then(() => '');
  ended.catch(() => {});
  try {
    return (await Promise.race([line.question(question, { signal }), ended])).trim();
  } finally {
    line.close();
    if (options.isSecret) stderr.write('\n');
  }
}

const units: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** Parses `90s`, `10m`, `2h`, `1h30m`, `3d`. */
export function durationMs(text: string): number {
  const pattern = /(\d+(?:\.\d+)?)\s*([smhdw])[a-z]*/gi;
  const parts = [...text.matchAll(pattern)];
  if (parts.length === 0 || text.replace(pattern, '').trim() !== '')
    throw usageError(`"${text}" is not a duration; expected one such as 90s, 10m, 2h or 3d`);
  return parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * (units[unit?.toLowerCase() ?? ''] ?? 0),
    0,
  );
}

/** The delivery time that --at or --in give. */
export async function deliveryTime(flags: Flags<'at' | 'in'>, now = new Date()): Promise<string | undefined> {
  if (flags.at !== undefined && flags.in !== undefined) throw usageError('use --at or --in, not both');
  if (flags.in !== undefined) return new Date(now.getTime() + durationMs(flags.in)).toISOString();
  if (flags.at === undefined) return undefined;
  const { parseDate } = await import('chrono-node');
  const found = parseDate(flags.at, now, { forwardDate: true });
  if (!found)
    throw usageError(`"${flags.at}" is not a time; expected one such as "tomorrow 9:00" or 2026-12-24T18:00`);
  return found.toISOString();
}

/** The time that an option gives: a duration before now, or a time. */
export async function pastTime(
  text: string | undefined,
  flag: string,
  now = new Date(),
): Promise<number | undefined> {
  if (text === undefined) return undefined;
  if (/^[\d.]+\s*[smhdw]/i.test(text)) return now.getTime() - durationMs(text);
  const { parseDate } = await import('chrono-node');
  const found = parseDate(text, now);
  if (!found)
    throw usageError(
      `${flag}: "${text}" is not a time; expected one such as 2h, "9:00", yesterday or 2026-12-24T18:00`,
    );
  return found.getTime();
}

export async function pastDate(text: string | undefined, flag: string): Promise<Date | undefined> {
  const ms = await pastTime(text, flag);
  return ms === undefined ? undefined : new Date(ms);
}

export function readTenant(text: string): Tenant {
  const tenant = tenantNamed(text);
  if (tenant) return tenant;
  throw usageError(`"${text}": expected a tenant as <provider>/<org>, for example codehost_app/acme`);
}

/** The name of a tenant that may not exist yet. */
export function readNewTenant(text: string): Tenant {
  const tenant = readTenant(text);
  if (tenant.provider === 'PROVIDER_UNSPECIFIED' || !isAccount(tenant.org))
    throw usageError(
      `"${text}": expected <provider>/<org> with a provider such as codehost_app, and ${accountIn.expected} as org`,
    );
  return tenant;
}

export function readAccount(text: string): string {
  if (isAccount(text)) return text;
  throw usageError(`--account: expected ${accountIn.expected}; got "${text}"`);
}

const isAccount = (text: string): boolean =>
  text !== '' && text.length <= accountIn.maxLength && new RegExp(accountIn.pattern).test(text);
