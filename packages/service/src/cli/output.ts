import { existsSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import type { Writable } from 'node:stream';
import { stripVTControlCharacters, styleText } from 'node:util';
import { CommandError, exitCodes, usageError } from './errors.ts';

export const outputFormats = ['table', 'json', 'yaml'] as const;
export type OutputFormat = (typeof outputFormats)[number];

export type Style = Parameters<typeof styleText>[0];

/** One column of a table. A flexible one shrinks first when the terminal is narrow. */
export interface Column<T> {
  readonly title: string;
  readonly of: (row: T) => string;
  readonly style?: (row: T) => Style | undefined;
  readonly isFlexible?: true;
  /** A flexible one that is left out where it would be too narrow to read. */
  readonly isOptional?: true;
  readonly isRight?: true;
}

const gap = 2;
const leastWidth = 8;
const leastOptionalWidth = 12;

/** Prints what a command answers: as text for people, or as JSON or YAML for programs. */
export class Output {
  readonly format: OutputFormat;
  readonly hasColour: boolean;
  readonly isTerminal = process.stdout.isTTY === true;
  readonly progress = new Progress();
  readonly #toYaml: (value: unknown) => string;

  constructor(format: OutputFormat, hasColour: boolean, toYaml: (value: unknown) => string = JSON.stringify) {
    this.format = format;
    this.hasColour = hasColour;
    this.#toYaml = toYaml;
  }

  /** Read each time, because the window may be resized. */
  get width(): number {
    return this.isTerminal ? (process.stdout.columns ?? 80) : Number.POSITIVE_INFINITY;
  }

  line(text = ''): void {
    this.write(`${text}\n`);
  }

  /** Text that may end within a line. */
  write(text: string): void {
    this.progress.clear();
    process.stdout.write(this.isTerminal ? printableWithColours(text) : text);
  }

  /** A remark for the user on standard error, so that standard output holds the answer alone. */
  note(text: string): void {
    this.progress.clear();
    process.stderr.write(
      `${process.stderr.isTTY ? printableWithColours(text) : stripVTControlCharacters(text)}\n`,
    );
  }

  paint(style: Style | undefined, text: string): string {
    return style !== undefined && this.hasColour ? styleText(style, text) : text;
  }

  /** Prints the value as JSON or YAML, or calls `show` to print it as text. */
  answer<T>(value: T, show: (value: T) => void): void {
    if (this.format === 'json') this.line(JSON.stringify(value, null, 2));
    else if (this.format === 'yaml') this.line(this.#toYaml(value).trimEnd());
    else show(value);
  }

  /** The same for one value of a sequence: one line of JSON, or one YAML document. */
  item<T>(value: T, show: (value: T) => void): void {
    if (this.format === 'json') this.line(JSON.stringify(value));
    else if (this.format === 'yaml') this.line(`---\n${this.#toYaml(value).trimEnd()}`);
    else show(value);
  }

  async table<T>(rows: readonly T[], columns: readonly Column<T>[], ifEmpty: string): Promise<void> {
    if (this.format !== 'table') return this.answer(rows, () => {});
    if (rows.length === 0) this.note(ifEmpty);
    else for (const text of await this.tableLines(rows, columns)) this.line(text);
  }

  async tableLines<T>(rows: readonly T[], columns: readonly Column<T>[]): Promise<string[]> {
    // Imported here: it takes as long to load as all of this program.
    const { default: stringWidth } = await import('string-width');
    const cellsOf = (row: T): string[] => columns.map(({ of }) => printable(of(row).replace(/\s+/g, ' ')));
    const lines = [columns.map(({ title }) => title), ...rows.map(cellsOf)];
    const wanted = columns.map((_, at) =>
      lines.reduce((widest, cells) => Math.max(widest, stringWidth(cells[at] ?? '')), 0),
    );
    const widths = fitWidths(wanted, columns, this.width);
    const isReadable = ({ isOptional }: Column<T>, at: number): boolean =>
      !isOptional || (widths[at] ?? 0) >= Math.min(wanted[at] ?? 0, leastOptionalWidth);
    if (!columns.every(isReadable)) return this.tableLines(rows, columns.filter(isReadable));
    const fit = (text: string, width: number, isRight = false): string => {
      const shown = stringWidth(text) <= width ? text : truncate(text, width, stringWidth);
      const space = ' '.repeat(Math.max(0, width - stringWidth(shown)));
      return isRight ? space + shown : shown + space;
    };
    return lines.map((cells, line) =>
      columns
        .map(({ style, isRight }, at) => {
          const text = fit(cells[at] ?? '', widths[at] ?? 0, isRight);
          return this.paint(line === 0 ? 'dim' : style?.(rows[line - 1] as T), text);
        })
        .join(' '.repeat(gap))
        .trimEnd(),
    );
  }

  /** Prints a unified diff, with colours. */
  diff(patch: string): void {
    for (const line of patch.trimEnd().split('\n')) this.line(this.paint(diffStyles[line[0] ?? ''], line));
  }
}

const diffStyles: Readonly<Record<string, Style>> = { '+': 'green', '-': 'red', '@': 'cyan' };

/** Imports the library that the format needs; it is slow to load. */
export async function openOutput(
  { output = 'table', color }: { readonly output?: OutputFormat; readonly color?: boolean },
  env: NodeJS.ProcessEnv,
): Promise<Output> {
  const toYaml = output === 'yaml' ? (await import('yaml')).stringify : undefined;
  return new Output(output, wantsColour(color, env), toYaml);
}

/** What a process that keeps running prints once it works: a text, or one line of data. */
export const startOutput = (format: OutputFormat | undefined, data: object, text: string): string =>
  format === undefined || format === 'table' ? text : `${JSON.stringify(data)}\n`;

/** Follows NO_COLOR and FORCE_COLOR; without them, only terminals get colours. */
function wantsColour(flag: boolean | undefined, env: NodeJS.ProcessEnv): boolean {
  if (flag === false || env.NO_COLOR) return false;
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== '0';
  return process.stdout.isTTY === true && env.TERM !== 'dumb';
}

/** Shrinks flexible columns first, then all columns, until the table fits. */
function fitWidths(
  wanted: readonly number[],
  columns: readonly { isFlexible?: true }[],
  width: number,
): number[] {
  const widths = [...wanted];
  let excess = wanted.reduce((sum, one) => sum + one, 0) + gap * (wanted.length - 1) - width;
  const shrink = (least: number, mayShrink: (at: number) => boolean): void => {
    for (; excess > 0; excess -= 1) {
      const widest = Math.max(...widths.filter((one, at) => mayShrink(at) && one > least));
      if (widest === Number.NEGATIVE_INFINITY) return;
      widths[widths.findIndex((one, at) => one === widest && mayShrink(at))] = widest - 1;
    }
  };
  shrink(leastWidth, (at) => columns[at]?.isFlexible === true);
  shrink(leastWidth, () => true);
  shrink(1, () => true);
  return widths;
}

function truncate(text: string, width: number, stringWidth: (text: string) => number): string {
  let start = '';
  for (const character of text) {
    if (stringWidth(start + character) > width - 1) break;
    start += character;
  }
  return `${start}…`;
}

/** Writes a file that only its owner can read. An interrupted write leaves no file, and the old one if there was one. */
export async function writeNewFile(
  file: string,
  replaces: boolean,
  write: (stream: Writable) => Promise<void>,
): Promise<void> {
  const written = replaces ? `${file}.part` : file;
  if (replaces) await rm(written, { force: true });
  const handle = await open(written, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST') throw fileExists(file);
    throw usageError(`can't write ${file}: ${error.message}`);
  });
  try {
    await write(handle.createWriteStream({ flush: true }));
    if (replaces) await rename(written, file);
  } catch (error) {
    await rm(written, { force: true });
    throw error;
  }
}

/** Refuses an archive for a terminal or an existing file. Called early, before the content is prepared. */
export function checkTarget(file: string, replaces: boolean, { isTerminal }: Output): void {
  if (file === '-' && isTerminal)
    throw usageError("can't write an archive to a terminal; use -f FILE, or a pipe");
  if (file !== '-' && !replaces && existsSync(file)) throw fileExists(file);
}

const fileExists = (file: string): CommandError =>
  new CommandError(`${file} already exists; --force replaces it`, exitCodes.conflict);

const redrawMs = 200;
const showAfterMs = 1_000;
/** Without a terminal, retries are logged only when they go on for this long. */
const logRetryAfterMs = 3_000;

/** A line on standard error that is redrawn while a command takes long. Shown in a terminal only. */
class Progress {
  readonly #isVisible = process.stderr.isTTY === true;
  #nextDrawMs = Date.now() + showAfterMs;
  #isDrawn = false;
  #problem = '';
  #retryingSinceMs: number | undefined;
  #isLogged = false;

  show(text: () => string): void {
    if (!this.#isVisible || Date.now() < this.#nextDrawMs) return;
    this.#nextDrawMs = Date.now() + redrawMs;
    this.#isDrawn = true;
    process.stderr.write(`\r\x1b[K${text()}`);
  }

  /** Shows what the command waits for and for how long. */
  async during<T>(what: string, work: Promise<T>): Promise<T> {
    const startedMs = Date.now();
    const timer = setInterval(() => {
      const seconds = Math.round((Date.now() - startedMs) / 1000);
      this.show(() => `${what} ${seconds}s${this.#problem && ` (${this.#problem})`}`);
    }, redrawMs);
    try {
      return await work;
    } finally {
      clearInterval(timer);
      this.end();
    }
  }

  /** Shows in a terminal that a request is retried; elsewhere logs it once. */
  retrying(message: string): void {
    this.#problem = `${message}; retrying`;
    this.#retryingSinceMs ??= Date.now();
    if (this.#isVisible) this.show(() => this.#problem);
    else if (!this.#isLogged && Date.now() - this.#retryingSinceMs >= logRetryAfterMs) {
      this.#isLogged = true;
      process.stderr.write(`muster: ${this.#problem}\n`);
    }
  }

  /** Removes the line, so that something else can be printed there. */
  clear(): void {
    if (this.#isDrawn) process.stderr.write('\r\x1b[K');
    this.#isDrawn = false;
  }

  end(): void {
    this.#problem = '';
    this.#retryingSinceMs = undefined;
    this.#isLogged = false;
    this.clear();
  }
}

const colourCodes = '\\u001b\\[[0-9;]*m';
const controlCodes = [
  '(?:\\u001b\\[|\\u009b)[0-9;?]*[ -/]*[@-~]',
  // Titles, links and the clipboard, up to their terminator if they have one.
  '(?:\\u001b\\]|\\u009d)[^\\u0007\\u001b\\u009c]*(?:\\u0007|\\u001b\\\\|\\u009c)',
  '\\u001b[@-_]?',
  '[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]',
].join('|');
const allCodes = new RegExp(controlCodes, 'g');
const allCodesWithColours = new RegExp(`(${colourCodes})|${controlCodes}`, 'g');

const begunCodes = ['\\u001b', '(?:\\u001b\\[|\\u009b)[0-9;?]*[ -/]*'].join('|');
const begunCode = new RegExp(`(?:${begunCodes})$`);

/** Without a control code at the end of the text whose rest has not come. */
export const withoutBegunCode = (text: string): string => text.replace(begunCode, '');

/** Removes control codes: an agent's text must not move the cursor or change the terminal. */
export const printable = (text: string): string => text.replace(allCodes, '');

/** The same, but keeps colours, for lines that this program has coloured. */
export const printableWithColours = (text: string): string =>
  text.replace(allCodesWithColours, (_, colour: string | undefined) => colour ?? '');
