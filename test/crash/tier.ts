/** How often something is done: the small tier's figure, unless the variable asks for the deep tier's. */
export function times(variable: string, small: number): number {
  const wanted = Number(process.env[variable] ?? small);
  if (!Number.isInteger(wanted) || wanted < 1)
    throw new Error(`${variable} must be a whole number of at least 1`);
  return wanted;
}

/** The timeout grows with the repetitions of the tier. */
export const withinMs = (repetitions: number, eachMs: number): { timeout: number } => ({
  timeout: 60_000 + repetitions * eachMs,
});

export interface Random {
  /** From 0 to just below `below`. */
  int(below: number): number;
  between(least: number, most: number): number;
  pick<T>(choices: readonly T[]): T;
}

/** The same seed makes the same choices; a failure names its seed. */
export function randomOf(seed: number): Random {
  let state = (seed * 2_654_435_761) >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const int = (below: number) => Math.floor(next() * below);
  return {
    int,
    between: (least, most) => least + int(most - least + 1),
    pick: (choices) => choices[int(choices.length)] as (typeof choices)[number],
  };
}

/** One line of figures per test, for the release notes. */
export function printFigures(what: string, figures: Record<string, number | string>): void {
  const line = Object.entries(figures).map(([name, figure]) => `${name} ${figure}`);
  process.stdout.write(`  ${what}: ${line.join(', ')}\n`);
}
