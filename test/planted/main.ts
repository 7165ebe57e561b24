import { plantedBugs } from './bugs.ts';
import { PlantedCopy } from './planting.ts';

/**
 * Checks that the suites can fail: each bug is put into a copy of the sources, the copy is built, and a test of the suites
 * listed with the bug must fail. First all these suites must pass without a bug.
 */
const say = (line: string): void => void process.stdout.write(`${line}\n`);

/** Parts of names; without any, all bugs. */
const wanted = process.argv.slice(2);
const bugs = plantedBugs.filter(
  ({ name }) => wanted.length === 0 || wanted.some((part) => name.includes(part)),
);
const copy = new PlantedCopy();
let failed = 0;

/** Says what came of it. A reason not to count it is a failure. */
async function attempt(name: string, work: () => Promise<string>): Promise<void> {
  try {
    say(`${await work()}  ${name}`);
  } catch (error) {
    failed += 1;
    say(`FAILED  ${name}\n        ${(error as Error).message}`);
  }
}

try {
  for (const suite of new Set(bugs.flatMap(({ suites }) => suites)))
    await attempt(suite, async () => {
      const test = await copy.failedTest(suite);
      if (test) throw new Error(`fails without a bug: ${test}`);
      return 'green';
    });
  if (failed > 0) throw new Error('a suite that fails without a bug catches nothing');
  for (const bug of bugs)
    await attempt(bug.name, async () => {
      const caught = await copy.catches(bug);
      if (!caught) throw new Error('no suite noticed it');
      return `caught by ${caught}`;
    });
} finally {
  copy.remove();
}
say(`\n${bugs.length} bugs, ${failed} failed`);
if (failed > 0) process.exit(1);
