import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { plantedBugs } from './bugs.ts';
import { PlantedCopy, readsSources } from './planting.ts';

/**
 * Tries some of the planted bugs in each run, other ones with each commit: those that a suite without a service catches,
 * because they take the least time. These suites run beside this one, and show that they pass without
 * a bug. `npm run test:planted` tries all bugs.
 */
const share = 6;

/** A failure is repeated with the same commit. Without git, the day decides. */
function turn(): number {
  try {
    const hash = execFileSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8', stdio: 'pipe' });
    return Number.parseInt(hash.slice(0, 8), 16);
  } catch {
    return Math.floor(Date.now() / 86_400_000);
  }
}

const quick = plantedBugs.filter(({ suites }) => suites.some(readsSources));
const shares = Math.ceil(quick.length / share);
const tried = quick.filter((_, i) => i % shares === turn() % shares);

let copy: PlantedCopy;
beforeAll(() => {
  copy = new PlantedCopy();
}, 600_000);
afterAll(() => copy?.remove());

test.each(tried.map((bug) => [bug.name, bug] as const))(
  'a suite catches the planted bug: %s',
  async (_, bug) => {
    expect(await copy.catches(bug, bug.suites.filter(readsSources))).not.toBeNull();
  },
  600_000,
);
