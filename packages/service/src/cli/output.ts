import { stripVTControlCharacters, styleText } from 'node:util';
import stringWidth from 'string-width';
import { stringify } from 'yaml';
import type { OutputForm } from './output-forms.ts';
import { printable, shownInTerminal } from './printable.ts';
import { Waiting } from './waiting.ts';

export type Style = Parameters<typeof styleText>[0];

/** One column of a table. A flexible one gives way when the terminal is narrow. */
export interface Column<T> {
  readonly title: string;
  readonly of: (row: T) => string;
  readonly style?: (row: T) => Style | undefined;
  readonly isFlexible?: true;
  readonly isRight?: true;
}

const gap = 2;
const leastWidth = 8;

/** What a command says: to people in a terminal, or to programs as JSON or YAML. Never colours where nobody sees them. */
export class Output {
  readonly form: OutputForm;
  readonly hasColour: boolean;
  readonly isTerminal = process.stdout.isTTY === true;
  readonly waiting = new Waiting();

  constructor(form: OutputForm, hasColour: boolean) {
    this.form = form;
    this.hasColour = hasColour;
  }

  /** As it is now: a window may change. */
  get width(): number {
    return this.isTerminal ? (process.stdout.columns ?? 80) : Number.POSITIVE_INFINITY;
  }

  line(text = ''): void {
    this.waiting.clear();
    process.stdout.write(`${this.isTerminal ? shownInTerminal(text) : text}\n`);
  }

  /** For the person, beside what the command answers. */
  note(text: string): void {
    this.waiting.clear();
    process.stderr.write(
      `${process.stderr.isTTY ? shownInTerminal(text) : stripVTControlCharacters(text)}\n`,
    );
  }

  paint(style: Style | undefined, text: string): string {
    return style !== undefined && this.hasColour ? styleText(style, text) : text;
  }

  /** A value as it came, for programs; for people, whatever `show` makes of it. */
  answer<T>(value: T, show: (value: T) => void): void {
    if (this.form === 'json') this.line(JSON.stringify(value, null, 2));
    else if (this.form === 'yaml') this.line(stringify(value).trimEnd());
    else show(value);
  }

  /** One of many that come one after the other: a line of JSON, or a document of YAML. */
  item<T>(value: T, show: (value: T) => void): void {
    if (this.form === 'json') this.line(JSON.stringify(value));
    else if (this.form === 'yaml') this.line(`---\n${stringify(value).trimEnd()}`);
    else show(value);
  }

  table<T>(rows: readonly T[], columns: readonly Column<T>[], ifEmpty: string): void {
    this.answer(rows, () => {
      if (rows.length === 0) this.note(ifEmpty);
      else for (const text of this.tableLines(rows, columns)) this.line(text);
    });
  }

  tableLines<T>(rows: readonly T[], columns: readonly Column<T>[]): string[] {
    const cells = rows.map((row) => columns.map((column) => printable(column.of(row).replace(/\s+/g, ' '))));
    const wanted = columns.map(({ title }, at) =>
      cells.reduce((widest, row) => Math.max(widest, stringWidth(row[at] ?? '')), stringWidth(title)),
    );
    const widths = fitted(wanted, columns, this.width);
    const lineOf = (texts: readonly string[], paint: (at: number, text: string) => string): string =>
      texts
        .map((text, at) =>
          paint(at, padded(shortened(text, widths[at] ?? 0), widths[at] ?? 0, columns[at]?.isRight)),
        )
        .join(' '.repeat(gap))
        .trimEnd();
    return [
      lineOf(
        columns.map(({ title }) => title),
        (_, text) => this.paint('dim', text),
      ),
      ...cells.map((texts, row) =>
        lineOf(texts, (at, text) => this.paint(columns[at]?.style?.(rows[row] as T), text)),
      ),
    ];
  }
}

/** Flexible columns share what the others leave; where that is not enough, the others give way too. */
function fitted(
  wanted: readonly number[],
  columns: readonly { isFlexible?: true }[],
  width: number,
): number[] {
  const widths = [...wanted];
  let excess = wanted.reduce((sum, one) => sum + one, 0) + gap * (wanted.length - 1) - width;
  const narrow = (least: number, mayGive: (at: number) => boolean): void => {
    for (; excess > 0; excess -= 1) {
      const widest = Math.max(...widths.filter((one, at) => mayGive(at) && one > least));
      if (widest === Number.NEGATIVE_INFINITY) return;
      widths[widths.findIndex((one, at) => one === widest && mayGive(at))] = widest - 1;
    }
  };
  narrow(leastWidth, (at) => columns[at]?.isFlexible === true);
  narrow(leastWidth, () => true);
  narrow(1, () => true);
  return widths;
}

function shortened(text: string, width: number): string {
  if (stringWidth(text) <= width) return text;
  let kept = '';
  for (const character of text) {
    if (stringWidth(kept + character) > width - 1) break;
    kept += character;
  }
  return `${kept}…`;
}

function padded(text: string, width: number, isRight = false): string {
  const room = ' '.repeat(Math.max(0, width - stringWidth(text)));
  return isRight ? room + text : text + room;
}

/** NO_COLOR and FORCE_COLOR as everywhere; else colours are for terminals. */
export function wantsColour(
  flag: boolean | undefined,
  env: Readonly<Record<string, string | undefined>>,
): boolean {
  if (flag === false || env.NO_COLOR) return false;
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== '0';
  return process.stdout.isTTY === true && env.TERM !== 'dumb';
}
