import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { deliveries } from './deliveries.ts';
import { firstRequest } from './first-request.ts';
import { fullRunner } from './full-runner.ts';
import { growth } from './growth.ts';
import { help } from './help-time.ts';
import { idle, memory } from './idle.ts';
import { latency } from './latency.ts';
import { output } from './output.ts';
import { partitions } from './partitions.ts';
import { peers } from './peers.ts';
import { reads } from './reads.ts';
import { missed, say } from './report.ts';
import { retention } from './retention.ts';
import { sizes } from './sizes.ts';
import { start } from './start.ts';
import { throughput } from './throughput.ts';
import { traces } from './traces.ts';
import { usageBench } from './usage.ts';
import { warmStart } from './warm-start.ts';

/**
 * Compares the service with what it is built on, in turns, because ratios are stable on a slow or busy machine. A missed
 * gate fails the run. Goals are printed beside the cost of an empty commit and of a bare round trip in the same run.
 */
const defaultParts = {
  help: { measure: help, tools: [] },
  start: { measure: start, tools: [] },
  throughput: { measure: throughput, tools: ['pgbench', 'wrk'] },
  peers: { measure: peers, tools: ['pgbench', 'wrk'] },
  reads: { measure: reads, tools: ['wrk'] },
  idle: { measure: idle, tools: [] },
  traces: { measure: traces, tools: ['wrk'] },
  latency: { measure: latency, tools: ['pgbench'] },
  output: { measure: output, tools: [] },
  usage: { measure: usageBench, tools: [] },
  deliveries: { measure: deliveries, tools: ['wrk'] },
  memory: { measure: memory, tools: [] },
  'first-request': { measure: firstRequest, tools: [] },
  'warm-start': { measure: warmStart, tools: [] },
  'full-runner': { measure: fullRunner, tools: [] },
};

/** These fill a disk and take long, so they have to be named. */
const longParts = {
  growth: { measure: (rows = 20_000_000) => growth(rows), tools: ['wrk'] },
  retention: { measure: (rows = 10_000_000) => retention(rows), tools: [] },
  partitions: { measure: (rows = 5_000_000) => partitions(rows), tools: [] },
  sizes: { measure: () => sizes(), tools: [] },
};

const { positionals: wanted, values } = parseArgs({
  allowPositionals: true,
  options: { rows: { type: 'string' } },
});
const rows = values.rows === undefined ? undefined : Number(values.rows);
if (rows !== undefined && !(Number.isInteger(rows) && rows >= 20_000)) {
  say(`--rows: expected a whole number of at least 20000, got ${values.rows}`);
  process.exit(2);
}
const parts: Record<string, { measure: (rows?: number) => void | Promise<void>; tools: string[] }> = {
  ...defaultParts,
  ...longParts,
};
const unknown = wanted.filter((name) => !(name in parts));
if (unknown.length > 0) {
  say(`unknown: ${unknown.join(', ')}; expected some of: ${Object.keys(parts).join(', ')}`);
  process.exit(2);
}
const names = wanted.length === 0 ? Object.keys(defaultParts) : wanted;
const chosen = Object.entries(parts).filter(([name]) => names.includes(name));
for (const tool of new Set(chosen.flatMap(([, { tools }]) => tools))) {
  if (!spawnSync(tool, ['--version']).error) continue;
  say(`${tool} is missing; on Debian: apt-get install postgresql-contrib wrk`);
  process.exit(2);
}
for (const [, { measure }] of chosen) await measure(rows);
if (missed.length > 0) {
  say(`\n${missed.length} gate(s) missed: ${missed.join('; ')}`);
  process.exit(1);
}
