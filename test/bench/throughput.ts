import { gate, say, seconds } from './report.ts';
import { alternated, load, pgbench, startForQueueAdd } from './tools.ts';

/** Commands over HTTP, against the same transaction by `pgbench`. */
export async function throughput(): Promise<void> {
  const service = await startForQueueAdd();
  const env = { KEY: service.key };
  const { queueAdd, same, spawn } = await alternated({
    same: () => pgbench(service, 'queue-add.pgbench.sql', seconds),
    queueAdd: () => load(service.url, 'queue-add.lua', seconds, env),
    spawn: (round) => load(service.url, 'spawn.lua', seconds, { ...env, ROUND: String(round) }),
  });
  await service.close();
  say(`      pgbench, the same transaction, 64 clients: ${same.toFixed(0)}/s`);
  say(`      queue-add over HTTP, 64 callers: ${queueAdd.toFixed(0)}/s; spawn: ${spawn.toFixed(0)}/s`);
  gate('queue-add against pgbench', queueAdd / same, 1.4, 2.0);
  gate('spawn against pgbench', spawn / same, 0.85, 1.0);
}
