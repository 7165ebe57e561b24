import { styleText } from 'node:util';
import stringWidth from 'string-width';
import { stringify } from 'yaml';
import type { OutputForm } from './output-forms.ts';

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
  readonly width: number;
  readonly hasColour: boolean;
  readonly isTerminal: boolean;

  constructor(form: OutputForm, hasColour: boolean) {
    this.form = form;
    this.isTerminal = process.stdout.isTTY === true;
    this.width = this.isTerminal ? (process.stdout.columns ?? 80) : Number.POSITIVE_INFINITY;
    this.hasColour = hasColour;
  }

  line(text = ''): void {
    process.stdout.write(`${text}\n`);
  }

  /** For the person, beside what the command answers. */
  note(text: string): void {
    process.stderr.write(`${text}\n`);
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

  table<T>(rows: readonly T[], columns: readonly Column<T>[], ifEmpty: string): void {
    this.answer(rows, () => {
      if (rows.length === 0) this.note(ifEmpty);
      else for (const text of this.tableLines(rows, columns)) this.line(text);
    });
  }

  tableLines<T>(rows: readonly T[], columns: readonly Column<T>[]): string[] {
    const cells = rows.map((row) => columns.map((column) => column.of(row).replace(/\s+/g, ' ')));
    const wanted = columns.map((column, at) =>
      Math.max(stringWidth(column.title), ...cells.map((row) => stringWidth(row[at] ?? ''))),
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

/** Flexible columns share what the others leave. */
function fitted(
  wanted: readonly number[],
  columns: readonly { isFlexible?: true }[],
  width: number,
): number[] {
  const excess = wanted.reduce((sum, one) => sum + one, 0) + gap * (wanted.length - 1) - width;
  if (excess <= 0) return [...wanted];
  const widths = [...wanted];
  for (let left = excess; left > 0; left -= 1) {
    const widest = widths
      .map((one, at) => ({ one, at }))
      .filter(({ at, one }) => columns[at]?.isFlexible && one > leastWidth)
      .sort((a, b) => b.one - a.one)[0];
    if (!widest) break;
    widths[widest.at] = widest.one - 1;
  }
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
