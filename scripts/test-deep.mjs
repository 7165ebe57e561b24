// The generating suites of `npm test` with the numbers for a release. Takes hours; each number can be overridden.
import { spawnSync } from 'node:child_process';

const figures = {
  MUSTER_EXHAUSTIVE_DEPTH: 6,
  MUSTER_SIMULATION_STEPS: 100_000_000,
  MUSTER_MODEL_RUNS: 20_000,
  MUSTER_MODEL_COMMANDS: 60,
  MUSTER_FUZZ_REQUESTS: 1_000_000,
  MUSTER_FUZZ_GATEWAY_REQUESTS: 500_000,
  MUSTER_FUZZ_RUNNER_REQUESTS: 500_000,
  MUSTER_HOSTILE_INPUTS: 500,
  MUSTER_CRASH_NODE_KILLS: 1_000,
  MUSTER_CRASH_WORKER_KILLS: 500,
  MUSTER_CRASH_POSTGRES_KILLS: 500,
  MUSTER_CRASH_RUNNER_KILLS: 250,
  MUSTER_CRASH_RUNNER_STOPS: 250,
  MUSTER_CRASH_SEEDS: 1_600,
  MUSTER_CRASH_SILENT_SEEDS: 400,
  MUSTER_CRASH_LOST_REPLIES: 1_000,
  MUSTER_CRASH_TREES: 50_000,
  MUSTER_CRASH_RACES: 1_000,
  MUSTER_CRASH_BUDGET_RACES: 1_000,
  MUSTER_CRASH_BUDGET_KILLS: 50,
  MUSTER_CRASH_REVIEW_KILLS: 50,
  MUSTER_CRASH_MIGRATION_KILLS: 50,
  MUSTER_CRASH_RESTARTS: 10,
  MUSTER_CRASH_RATE: 1_000,
  MUSTER_ARCHIVE_EXPORTS: 100,
  MUSTER_CODEHOST_KILLS: 200,
  MUSTER_CODEHOST_COMMENTS: 120,
  MUSTER_CODEHOST_HARNESSES: 1,
  MUSTER_OPEN_WAITS: 10_000,
};

const deep = Object.fromEntries(Object.entries(figures).map(([name, figure]) => [name, String(figure)]));
const suites = [
  'test/simulation',
  'test/model',
  'test/fuzz',
  'test/hostile',
  'test/crash',
  'test/tenancy',
  'test/canary',
  'test/archive/under-load.test.ts',
  'test/codehost/calls.test.ts',
  'test/codehost/kills.test.ts',
  'test/codehost/harnesses.test.ts',
  'test/conformance/load-limits.test.ts',
];
const run = (suites, env) =>
  spawnSync('npx', ['vitest', 'run', '--testTimeout', '0', ...suites, ...process.argv.slice(2)], {
    stdio: 'inherit',
    env: { ...env, ...process.env },
  }).status;
const failed = [
  run(suites, deep),
  run(['test/hostile'], { ...deep, MUSTER_TEST_RUNNER: 'apart' }),
  run(['test/browser', 'test/dashboard'], { MUSTER_TEST_WORKERS: '2', MUSTER_BROWSER_EVERY_SCREEN: '1' }),
];
process.exit(failed.some((status) => status !== 0) ? 1 : 0);
