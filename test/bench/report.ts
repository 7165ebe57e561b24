/** How long each load lasts. */
export const seconds = Number(process.env.MUSTER_BENCH_SECONDS ?? 6);

/** The names of the gates that were missed. */
export const missed: string[] = [];

export const say = (line = ''): void => void process.stdout.write(`${line}\n`);

function judge(name: string, figure: number, isMet: boolean, wanted: string): void {
  if (!isMet) missed.push(name);
  say(`${isMet ? 'ok  ' : 'MISS'}  ${name}: ${Number(figure.toFixed(2))} (${wanted})`);
}

/** A figure that fails the run when it is too small. The goal is what we want to reach. */
export const gate = (name: string, figure: number, least: number, goal?: number): void =>
  judge(
    name,
    figure,
    figure >= least,
    `gate >= ${Number(least.toFixed(2))}${goal === undefined ? '' : `, goal ${goal}`}`,
  );

/** A figure that fails the run when it is too large. */
export const ceiling = (name: string, figure: number, most: number): void =>
  judge(name, figure, figure <= most, `gate <= ${most}`);
