import { spawnSync } from 'node:child_process';
import { program } from '../support/server.ts';
import { ceiling, say } from './report.ts';
import { median } from './tools.ts';

const rounds = 15;

export function help(): void {
  const { oursMs, bareMs } = helpTime();
  say(`      node -e 0: ${bareMs.toFixed(0)} ms, muster --help: ${oursMs.toFixed(0)} ms`);
  ceiling('muster --help less 100 ms against node -e 0', (oursMs - 100) / bareMs, 1.5);
}

/** How long `muster --help` takes, and Node with an empty script, in turns. */
function helpTime(): { readonly oursMs: number; readonly bareMs: number } {
  const ours: number[] = [];
  const bare: number[] = [];
  // The first round only warms the system's caches.
  for (let round = 0; round <= rounds; round += 1) {
    const [bareMs, oursMs] = [tookMs('-e', '0'), tookMs(program, '--help')];
    if (round === 0) continue;
    bare.push(bareMs);
    ours.push(oursMs);
  }
  return { oursMs: median(ours), bareMs: median(bare) };
}

function tookMs(...args: string[]): number {
  const from = performance.now();
  const { status } = spawnSync(process.execPath, args);
  if (status !== 0) throw new Error(`node ${args.join(' ')} ended with ${status}`);
  return performance.now() - from;
}
