/** A line of the table; without a limit it is for information. */
interface Line {
  readonly what: string;
  readonly figure: string;
  readonly gate: string;
  readonly isMissed: boolean;
}

/** Measured values, some of them with an upper limit. */
export class Gates {
  readonly #lines: Line[] = [];

  note(what: string, figure: string): void {
    this.#lines.push({ what, figure, gate: '', isMissed: false });
  }

  most(what: string, value: number, limit: number, unit = ''): void {
    const figure = `${Number(value.toFixed(2))}${unit}`;
    // NaN is a failed measurement.
    this.#lines.push({ what, figure, gate: `<= ${limit}${unit}`, isMissed: !(value <= limit) });
  }

  get missed(): readonly string[] {
    return this.#lines.filter(({ isMissed }) => isMissed).map(({ what }) => what);
  }

  table(): string {
    const width = (field: 'what' | 'figure') => Math.max(...this.#lines.map((line) => line[field].length));
    return this.#lines
      .map(({ what, figure, gate, isMissed }) => {
        const mark = gate === '' ? '    ' : isMissed ? 'MISS' : 'ok  ';
        return `${mark}  ${what.padEnd(width('what'))}  ${figure.padStart(width('figure'))}  ${gate}`.trimEnd();
      })
      .join('\n');
  }
}
