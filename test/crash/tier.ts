import { Random } from '../simulation/random.ts';

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

/** The same seed makes the same choices; a failure names its seed. */
export const randomOf = (seed: number): Random => new Random(seed * 2_654_435_761);

/** One line of figures per test, for the release notes. */
export function printFigures(what: string, figures: Record<string, number | string>): void {
  const line = Object.entries(figures).map(([name, figure]) => `${name} ${figure}`);
  process.stdout.write(`  ${what}: ${line.join(', ')}\n`);
}
