import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { gate, say, seconds } from './report.ts';
import { alternated, here, load, pgbench, type Service, startForQueueAdd } from './tools.ts';

const run = promisify(execFile);

/** Messages per second that 64 callers in one process send with another queue on the same PostgreSQL server. */
async function peer(service: Service, name: 'pg-boss' | 'graphile-worker'): Promise<number> {
  const args = [here('peer-callers.mjs'), name, String(seconds)];
  const { stdout } = await run(process.execPath, args, { env: service.pgEnv });
  return Number(/^([\d.]+) per second$/m.exec(stdout)?.[1]);
}

/** Adding a message over HTTP, against the libraries that add one in the caller's own process. */
export async function peers(): Promise<void> {
  const service = await startForQueueAdd();
  const env = { KEY: service.key };
  const measures = {
    boss: () => peer(service, 'pg-boss'),
    worker: () => peer(service, 'graphile-worker'),
    same: () => pgbench(service, 'queue-add.pgbench.sql', seconds),
    queueAdd: () => load(service.url, 'queue-add.lua', seconds, env),
  };
  // Autovacuum has more to do with the tables of all of them, and falls on any of the rounds.
  const { boss, worker, same, queueAdd } = await alternated(measures, 5);
  await service.close();
  say(`      64 callers: pg-boss send ${boss.toFixed(0)}/s, graphile-worker addJob ${worker.toFixed(0)}/s`);
  say(`      pgbench ${same.toFixed(0)}/s, queue-add over HTTP ${queueAdd.toFixed(0)}/s`);
  gate('queue-add against pg-boss send', queueAdd / boss, 1.9, 2.7);
  gate('queue-add against graphile-worker addJob', queueAdd / worker, 2.6, 4);
}
