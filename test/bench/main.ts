import { spawnSync } from 'node:child_process';
import { firstRequest } from './first-request.ts';
import { fullRunner } from './full-runner.ts';
import { help } from './help-time.ts';
import { idle, memory } from './idle.ts';
import { latency } from './latency.ts';
import { output } from './output.ts';
import { peers } from './peers.ts';
import { reads } from './reads.ts';
import { missed, say } from './report.ts';
import { throughput } from './throughput.ts';

/**
 * Compares the service with what it is built on, in turns, because ratios are stable on a slow or busy machine. A missed
 * gate fails the run. Goals are printed beside the cost of an empty commit and of a bare round trip in the same run.
 */
const parts = {
  help: { measure: help, tools: [] },
  throughput: { measure: throughput, tools: ['pgbench', 'wrk'] },
  peers: { measure: peers, tools: ['pgbench', 'wrk'] },
  reads: { measure: reads, tools: ['wrk'] },
  idle: { measure: idle, tools: [] },
  latency: { measure: latency, tools: ['pgbench'] },
  output: { measure: output, tools: [] },
  memory: { measure: memory, tools: [] },
  'first-request': { measure: firstRequest, tools: [] },
  'full-runner': { measure: fullRunner, tools: [] },
} satisfies Record<string, { measure: () => void | Promise<void>; tools: string[] }>;

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in parts));
if (unknown.length > 0) {
  say(`unknown: ${unknown.join(', ')}; expected some of: ${Object.keys(parts).join(', ')}`);
  process.exit(2);
}
const chosen = Object.entries(parts).filter(([name]) => wanted.length === 0 || wanted.includes(name));
for (const tool of new Set(chosen.flatMap(([, { tools }]) => tools))) {
  if (!spawnSync(tool, ['--version']).error) continue;
  say(`${tool} is missing; on Debian: apt-get install postgresql-contrib wrk`);
  process.exit(2);
}
for (const [, { measure }] of chosen) await measure();
if (missed.length > 0) {
  say(`\n${missed.length} gate(s) missed: ${missed.join('; ')}`);
  process.exit(1);
}
