import { readdirSync } from 'node:fs';
import { Agent } from 'node:http';
import { parseStat } from '../../packages/service/src/runner/sandbox/proc.ts';
import { type Api, apiOf } from './api.ts';
import { until } from './async.ts';
import { processText } from './files.ts';
import type { Server } from './server.ts';

/** The environment of a server with two workers, whose log says which worker has answered. */
export const twoLoggedWorkers = { MUSTER_WORKERS: '2', MUSTER_LOG: 'info' };

export interface WorkerConnection {
  readonly api: Api;
  readonly agent: Agent;
}

/** Opens connections until each of two workers has accepted one. */
export async function connectToWorkers(server: Server): Promise<[WorkerConnection, WorkerConnection]> {
  const connections = new Map<number, WorkerConnection>();
  await until(
    'a connection to each worker',
    async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const api = apiOf(server, undefined, agent);
      const before = answersIn(server).length;
      await api.get('/healthz');
      const [worker = 0] = await until(
        'the log line',
        async () => answersIn(server).slice(before),
        (seen) => seen.length > 0,
      );
      connections.set(worker, { api, agent });
      return [...connections.keys()];
    },
    (seen) => seen.includes(1) && seen.includes(2),
  );
  const [one, two] = [connections.get(1), connections.get(2)];
  if (!one || !two) throw new Error('a worker is missing');
  return [one, two];
}

/** The workers that have answered `/healthz`, in this order. */
const answersIn = (server: Server): number[] =>
  [...server.output.join('').matchAll(/"worker":(\d)[^\n]*"route":"\/healthz"/g)].map((line) =>
    Number(line[1]),
  );

/** The process ids of a server's workers, by number. */
export function workerPids({ process: { pid } }: Server): ReadonlyMap<number, number> {
  const children = readdirSync('/proc').filter(
    (name) => parseStat(processText(name, 'stat'))?.parent === pid,
  );
  const numbered = children.flatMap((child) => {
    const number = /(?:^|\0)MUSTER_WORKER=(\d+)/.exec(processText(child, 'environ'))?.[1];
    return number === undefined ? [] : [[Number(number), Number(child)] as const];
  });
  return new Map(numbered);
}
