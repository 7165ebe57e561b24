import { expect, test } from 'vitest';
import regressionSeeds from './regression-seeds.json' with { type: 'json' };
import { Simulation } from './simulation.ts';

const steps = Number(process.env.MUSTER_SIMULATION_STEPS ?? 100_000);
const replayed = process.env.MUSTER_SIMULATION_SEED;
const faultSteps = 4_000;

interface Result {
  readonly steps: number;
  readonly commits: number;
  readonly failure: string | null;
}

/** By seed: the same seed makes the same simulation, so each is simulated once. */
const results = new Map<number, Result>();

async function resultOf(seed: number): Promise<Result> {
  const result = results.get(seed) ?? (await simulate(seed));
  results.set(seed, result);
  return result;
}

async function simulate(seed: number): Promise<Result> {
  const simulation = new Simulation(seed, faultSteps);
  let failure: string | null = null;
  try {
    await simulation.run();
  } catch (error) {
    const cause = error instanceof Error ? (error.stack ?? String(error)) : String(error);
    failure = `seed ${seed}, step ${simulation.clock.steps}: ${cause}`;
  }
  return { steps: simulation.clock.steps, commits: simulation.tables.commits, failure };
}

/** Those that failed once, then all others. */
function* seeds(): Generator<number> {
  yield* regressionSeeds;
  for (let seed = 1; ; seed += 1) if (!regressionSeeds.includes(seed)) yield seed;
}

test('seeds that failed once stay fixed', async () => {
  for (const seed of regressionSeeds) expect((await resultOf(seed)).failure).toBeNull();
});

test('the same seed makes the same simulation', async () => {
  expect(await simulate(7)).toEqual(await resultOf(7));
});

test(`${steps} steps with and without faults keep every invariant, and every agent becomes idle`, {
  timeout: steps <= 1_000_000 ? 180_000 : 24 * 3_600_000,
}, async () => {
  const startedMs = performance.now();
  const failures: string[] = [];
  const done = { steps: 0, commits: 0, seeds: 0 };
  for (const seed of replayed === undefined ? seeds() : [Number(replayed)]) {
    if (done.steps >= steps || failures.length >= 5) break;
    const result = await resultOf(seed);
    done.steps += result.steps;
    done.commits += result.commits;
    done.seeds += 1;
    if (result.failure) failures.push(result.failure);
  }
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  process.stdout.write(
    `simulator: ${done.steps} steps, ${done.commits} commits, ${done.seeds} seeds, ${seconds} s\n`,
  );
  expect(failures, 'replay one with MUSTER_SIMULATION_SEED').toEqual([]);
});
