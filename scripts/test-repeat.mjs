// Runs the suites several times, and reports every test that failed in any run.
//   npm run test:repeat -- [--runs 5] [--busy] [paths and options of vitest]
// --busy keeps one core busy meanwhile.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const { values, tokens } = parseArgs({
  options: { runs: { type: 'string', default: '5' }, busy: { type: 'boolean', default: false } },
  strict: false,
  tokens: true,
});
/** Other arguments are for vitest. */
const own = new Set();
for (const { name, index, inlineValue } of tokens) {
  if (name === 'busy' || name === 'runs') own.add(index);
  if (name === 'runs' && inlineValue === false) own.add(index + 1);
}
const forVitest = process.argv.slice(2).filter((_, index) => !own.has(index));
const runs = Number(values.runs);
if (!Number.isInteger(runs) || runs < 1) {
  console.error(`--runs: expected a whole number above 0; got "${values.runs}"`);
  process.exit(2);
}

/** The tests of one run that failed, with their errors, and files that could not run. */
function failuresIn(report) {
  return report.testResults.flatMap(({ name, message, assertionResults }) => {
    const failed = assertionResults.filter(({ status }) => status === 'failed');
    if (failed.length === 0) return message ? [{ test: name, error: message }] : [];
    return failed.map(({ fullName, failureMessages }) => ({
      test: `${name}: ${fullName}`,
      error: failureMessages.join('\n'),
    }));
  });
}

const folder = mkdtempSync(join(tmpdir(), 'muster-repeat-'));
const busy = values.busy ? spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }) : null;
const failures = [];
let broken = 0;
try {
  for (let run = 1; run <= runs; run += 1) {
    const file = join(folder, `${run}.json`);
    const startedMs = Date.now();
    const { status } = spawnSync(
      'npx',
      ['vitest', 'run', '--reporter', 'dot', '--reporter', 'json', '--outputFile.json', file, ...forVitest],
      { stdio: ['ignore', 'ignore', 'inherit'] },
    );
    const minutes = ((Date.now() - startedMs) / 60_000).toFixed(1);
    let found = [];
    try {
      found = failuresIn(JSON.parse(readFileSync(file, 'utf8')));
    } catch (error) {
      found = [{ test: 'the run itself', error: `no report: ${error.message}` }];
    }
    // An error outside of every test.
    if (status !== 0 && found.length === 0)
      found = [{ test: 'the run itself', error: `vitest ended with ${status}` }];
    if (found.length > 0) broken += 1;
    failures.push(...found.map((one) => ({ run, ...one })));
    console.log(`run ${run} of ${runs}: ${found.length} failed, ${minutes} minutes`);
  }
} finally {
  busy?.kill();
  rmSync(folder, { recursive: true, force: true });
}
for (const test of new Set(failures.map((one) => one.test))) {
  const ofTest = failures.filter((one) => one.test === test);
  console.log(`\nFAILED in run ${ofTest.map(({ run }) => run).join(', ')}: ${test}`);
  console.log(ofTest[0].error.split('\n').slice(0, 20).join('\n'));
}
console.log(`\n${runs - broken} of ${runs} runs passed`);
process.exit(broken > 0 ? 1 : 0);
