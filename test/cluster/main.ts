import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { installMissing } from '../support/system-packages.ts';

/**
 * Runs the suite of the cluster in its own process namespace: when it ends, also by Ctrl-C, the kernel ends every
 * process in it.
 *
 *   npm run test:cluster -- [--deep] [--faults 8] [--seed 1]
 */
const { values } = parseArgs({
  options: { deep: { type: 'boolean' }, faults: { type: 'string' }, seed: { type: 'string' } },
});
const faults = values.faults ?? (values.deep ? '40' : '8');
const seed = values.seed ?? String(Math.floor(Math.random() * 1_000_000) + 1);
/** Start-up and the final checks, and what one fault may take. */
const withinMs = 10 * 60_000 + Number(faults) * 3 * 60_000;

const missing = installMissing({
  '/usr/lib/postgresql/15/bin/postgres': 'postgresql-15',
  patroni: 'patroni',
  etcd: 'etcd-server',
  haproxy: 'haproxy',
  pgbouncer: 'pgbouncer',
  unshare: 'util-linux',
});
if (missing.length > 0) {
  process.stderr.write(`*** THE CLUSTER IS NOT TESTED: missing ${missing.join(', ')}\n`);
  process.exit(1);
}

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'muster-cluster-'));
const asRoot = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'];
const vitest = [
  join(root, 'node_modules/vitest/vitest.mjs'),
  'run',
  '--config',
  'test/cluster/vitest.config.ts',
];
// The first process of a namespace has to reap what others leave, which a waiting shell does.
const init = ['/bin/sh', '-c', '"$@" & wait $!', 'init'];
const suite = spawn(
  'unshare',
  [...asRoot, '--pid', '--fork', '--kill-child', '--mount-proc', ...init, process.execPath, ...vitest],
  {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
    // Not in the terminal's group, so that Ctrl-C arrives here first.
    detached: true,
    env: { ...process.env, TMPDIR: folder, MUSTER_CLUSTER_FAULTS: faults, MUSTER_CRASH_SEED: seed },
  },
);
process.stdout.write(`cluster: ${faults} faults, --seed ${seed}\n`);
const stop = (): void => void suite.kill('SIGKILL');
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
const timer = setTimeout(() => {
  process.stderr.write(`*** the suite took longer than ${withinMs / 60_000} minutes\n`);
  stop();
}, withinMs);
suite.on('exit', (code) => {
  clearTimeout(timer);
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  process.exit(code ?? 1);
});
