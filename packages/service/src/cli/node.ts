import type { Server } from 'node:http';
import { CodeHosts } from '../codehost/code-hosts.ts';
import { Control, type ControlOptions } from '../control/control.ts';
import { Metrics } from '../http/metrics.ts';
import { buildServer } from '../http/server.ts';
import { Change } from '../lib/change.ts';
import type { Log } from '../lib/log.ts';
import { ServiceSecrets } from '../lib/service-secret.ts';
import { WorkerChannel, workerNumber } from '../lib/worker-channel.ts';
import { abilitiesOf } from '../runner/harnesses.ts';
import type { SandboxChoice } from '../runner/sandbox/probe.ts';
import { sent } from '../store/connection.ts';
import { type Config, ConfigError } from './config.ts';
import { serviceSecret } from './data-folder.ts';
import { chooseConfiguredSandbox, startConfiguredRunner } from './runner.ts';
import { connectStore, type OpenStore } from './store.ts';

/** How long requests may take to end during the shutdown. */
const requestsMs = 5_000;

export type ShutdownStep = readonly [name: string, close: () => Promise<void>];

export interface RunningService {
  readonly address: string;
  /** What to close, in this order. */
  readonly shutdown: readonly ShutdownStep[];
}

export interface NodeOptions {
  readonly config: Config;
  readonly env: NodeJS.ProcessEnv;
  readonly log: Log;
  readonly store: Pick<OpenStore, 'database' | 'connection'>;
  /** Null for a node without a runner. */
  readonly sandbox: SandboxChoice | null;
  readonly workers: WorkerChannel | null;
}

/** Starts the API in this process and, if it gets a sandbox, a runner. */
export async function startNode(options: NodeOptions): Promise<RunningService> {
  const { config, env, log, store, sandbox, workers } = options;
  const closing = new AbortController();
  const metrics = new Metrics(() => sent.statements);
  let address = '';
  const publicUrl = () => config.publicUrl ?? address;
  const control = openControl(config, store, log, {
    publicUrl,
    workers,
    onBatch: (size) => metrics.batches.observe(size),
    onMaintenance: (task, seconds) => metrics.maintained(task, seconds),
  });
  const codeHosts = new CodeHosts({
    ...{ database: store.database, control, log, publicUrl },
    innerHosts: config.innerHosts,
    settleMs: config.reviewSettleMs,
  });
  const { rateLimit, keepAliveMs } = config;
  const app = buildServer({
    ...{ control, codeHosts, log, metrics, workers, rateLimit, keepAliveMs, publicUrl },
    closing: closing.signal,
  });
  const requests = countRequests(app.server);
  address = await app.listen({ host: config.host, port: config.port }).catch((error: unknown) => {
    throw listenError(config, error);
  });
  await control.start();
  await codeHosts.start();
  const runner =
    config.runner && sandbox
      ? await startConfiguredRunner(config.runner, abilitiesOf(env, config.models, log), {
          url: reachable(address),
          apiKey: control.keys.serviceRunnerKey(),
          sandbox: sandbox.sandbox,
          environment: env,
          log,
        })
      : null;
  return {
    address,
    shutdown: [
      [
        'runner',
        async () => {
          closing.abort();
          await runner?.drain();
        },
      ],
      [
        'requests',
        async () => {
          const closed = app.close();
          await requests.ended(requestsMs);
          app.server.closeAllConnections();
          await closed;
        },
      ],
      [
        'timers and batches',
        async () => {
          await codeHosts.close();
          await control.close();
        },
      ],
    ],
  };
}

/** A node in a process that the supervisor of the service has started. The first one has the runner. */
export async function runWorker(config: Config, env: NodeJS.ProcessEnv, log: Log): Promise<void> {
  // A terminal sends them to the supervisor too, which decides.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {});
  const workers = new WorkerChannel();
  try {
    const hasRunner = workerNumber(env) === 1;
    const sandbox = config.runner && hasRunner ? await chooseConfiguredSandbox(config.runner) : null;
    const store = await connectStore(config, log);
    const { address, shutdown } = await startNode({ config, env, log, store, sandbox, workers });
    const [drain, ...rest] = shutdown;
    workers.onCommand('drain', async () => {
      await drain?.[1]();
      await workers.send({ type: 'drained' });
    });
    workers.onCommand('close', async () => {
      for (const [, close] of rest) await close();
      await store.close();
      process.exit(0);
    });
    await workers.send({ type: 'ready', address });
  } catch (error) {
    const { name, message, stack = '' } = error as Error;
    await workers.send({ type: 'failed', name, message, stack });
    process.exit(1);
  }
}

type ControlSettings = Pick<ControlOptions, 'publicUrl' | 'onBatch' | 'onMaintenance'> &
  Partial<Pick<ControlOptions, 'workers'>>;

export const openControl = (
  config: Config,
  { database, connection }: NodeOptions['store'],
  log: Log,
  { workers = null, ...settings }: ControlSettings,
): Control =>
  new Control({
    ...{ database, connection, log, workers, ...settings },
    secrets: new ServiceSecrets(serviceSecret(config.dataFolder, config.secret), config.previousSecret),
    defaultModel: config.defaultModel,
    models: config.models,
    leaseMs: config.leaseMs,
    timelineDays: config.timelineDays,
    timelineEntries: config.timelineEntries,
  });

/** A server that listens on all interfaces is reached by the loopback address. */
export const reachable = (address: string): string =>
  address.replace(/\/\/(0\.0\.0\.0|\[::\])/, '//127.0.0.1');

function listenError({ host, port }: Config, error: unknown): Error {
  const { code = '' } = error as NodeJS.ErrnoException;
  const problems: Readonly<Record<string, string>> = {
    EADDRINUSE: `MUSTER_PORT: port ${port} of ${host} is in use; stop the process that listens there, or set another port`,
    EACCES: `MUSTER_PORT: no permission to listen on port ${port}; use one above 1023`,
    EADDRNOTAVAIL: `MUSTER_HOST: ${host} is not an address of this machine`,
    ENOTFOUND: `MUSTER_HOST: the host name ${host} can't be resolved`,
  };
  const problem = problems[code];
  return problem === undefined ? (error as Error) : new ConfigError(problem);
}

/** Counts requests until their responses are closed. */
function countRequests(server: Server) {
  let open = 0;
  const closed = new Change();
  server.on('request', (_request, response) => {
    open += 1;
    response.once('close', () => {
      open -= 1;
      closed.happened();
    });
  });
  return {
    async ended(withinMs: number): Promise<void> {
      const endMs = performance.now() + withinMs;
      while (open > 0 && performance.now() < endMs) await closed.within(endMs - performance.now());
    },
  };
}
