import { randomBytes } from 'node:crypto';
import type { Server } from 'node:http';
import { Server as NetServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Installation } from '@muster/sdk/contract';
import { CodeHosts } from '../codehost/code-hosts.ts';
import { Control, type ControlOptions } from '../control/control.ts';
import { Processor } from '../deliveries/process.ts';
import { Receiver } from '../deliveries/receive.ts';
import type { ServerOptions } from '../http/context.ts';
import { buildServer } from '../http/server.ts';
import { DatabaseDisk, diskSpace } from '../lib/disk-space.ts';
import { installationOf } from '../lib/installation.ts';
import type { Log } from '../lib/log.ts';
import { Metrics } from '../lib/metrics.ts';
import { startFailure } from '../lib/service-process.ts';
import { ServiceSecrets } from '../lib/service-secret.ts';
import { openTracer } from '../lib/traces/open-tracer.ts';
import type { Tracer } from '../lib/traces/tracer.ts';
import { WakeSignal } from '../lib/wake-signal.ts';
import { WorkerChannel } from '../lib/worker-channel.ts';
import { Notifications } from '../notify/notifications.ts';
import { SignIns } from '../sign-in/sign-ins.ts';
import { sent } from '../store/connection.ts';
import { dueDeliveries } from '../store/statements/deliveries.ts';
import { dueItems } from '../store/statements/outbox.ts';
import { dueSchedules } from '../store/statements/schedules.ts';
import { Triggers } from '../trigger/triggers.ts';
import { Outbox } from '../work/outbox.ts';
import { TenantMasks } from '../work/tenant-masks.ts';
import { loopOf, WorkLoops } from '../work/work-loops.ts';
import type { Config } from './config.ts';
import { openSecrets } from './open-secrets.ts';
import { connectStore, type OpenStore } from './store.ts';
import { ConfigError } from './variables.ts';

/** How long requests may take to end during the shutdown. */
const requestsMs = 5_000;
/** How long connections without a request stay open after the drain. */
const lastRepliesMs = 1_000;

export type ShutdownStep = readonly [name: string, close: () => Promise<void>];

export interface RunningService {
  readonly address: string;
  /** `/readyz` is 503 from now on. Everything else is served. */
  unready(): void;
  /** What to close, in this order. The first step ends waits and streams; requests are served until the next one. */
  readonly shutdown: readonly [ShutdownStep, ...ShutdownStep[]];
}

export interface NodeOptions {
  readonly config: Config;
  readonly log: Log;
  readonly store: Pick<OpenStore, 'database' | 'connection'>;
  readonly workers: WorkerChannel | null;
  readonly secrets: ServiceSecrets;
  /** For the variables of OpenTelemetry. */
  readonly env: NodeJS.ProcessEnv;
}

/** Starts the API in this process. */
export async function startNode(options: NodeOptions): Promise<RunningService> {
  const { config, log, store, workers, secrets, env } = options;
  const draining = new AbortController();
  const closing = new AbortController();
  const tracer = await openTracer(env, 'muster', log);
  const metrics = measureNode(config, tracer);
  let address = '';
  const publicUrl = () => config.publicUrl ?? address;
  const control = openControl(config, store, log, { secrets, publicUrl, workers, metrics });
  const { work, ...served } = openWork(options, control, publicUrl);
  const { codeHosts, triggers, notifications, signIns } = served;
  const { rateLimit, trustedProxies, keepAliveMs } = config;
  const app = buildServer({
    ...{ control, ...served, log, metrics, tracer, workers, publicUrl },
    installation: installationHere(config, env),
    ...{ rateLimit, trustedProxies, keepAliveMs },
    databaseDisk: new DatabaseDisk(config.databaseUrl ? null : config.dataFolder),
    draining: draining.signal,
    closing: closing.signal,
  });
  const requests = countRequests(app.server);
  address = await app.listen({ host: config.host, port: config.port }).catch(async (error: unknown) => {
    await control.close();
    throw listenError(config, error);
  });
  await control.start();
  await codeHosts.start();
  control.timers.onDue((table) => work.due(table));
  return {
    address,
    unready: () => draining.abort(),
    shutdown: [
      ['waits', async () => closing.abort()],
      [
        'requests',
        async () => {
          if (config.drainMs > 0) await sendLastReplies(app.server);
          const closed = app.close();
          await requests.ended(requestsMs);
          app.server.closeAllConnections();
          await closed;
        },
      ],
      [
        'timers and batches',
        async () => {
          codeHosts.cancel();
          notifications.cancel();
          signIns.cancel();
          await work.close();
          await codeHosts.close();
          await triggers.close();
          await control.close();
        },
      ],
      ['traces', async () => tracer?.close()],
    ],
  };
}

/** Workers are started with the same file. */
export const installationHere = ({ command, runner }: Config, env: NodeJS.ProcessEnv): Installation =>
  installationOf({
    script: process.argv[1] ?? 'muster',
    folder: process.cwd(),
    ...{ env, command },
    hasRunner: runner !== null,
  });

/** The metrics of this process, its disk and its queries. */
function measureNode({ dataFolder }: Config, tracer: Tracer | undefined): Metrics {
  const metrics = new Metrics();
  metrics.measureProcess();
  metrics.onRead(async () => {
    metrics.total('muster_store_queries_total', sent.statements);
    metrics.total('muster_trace_spans_dropped_total', tracer?.dropped ?? 0);
    const { freeBytes, totalBytes } = await diskSpace(dataFolder);
    metrics.put('muster_disk_free_bytes', {}, freeBytes);
    metrics.put('muster_disk_bytes', {}, totalBytes);
  });
  return metrics;
}

type Served = Pick<ServerOptions, 'codeHosts' | 'triggers' | 'receiver' | 'notifications' | 'signIns'>;

/** The kinds of work that wait in the database, and the topics of the outbox. */
function openWork(
  { config, log, secrets, store: { database } }: NodeOptions,
  control: Control,
  publicUrl: () => string,
): Served & { readonly work: WorkLoops } {
  const nudge = () => work.nudge();
  const codeHosts = new CodeHosts({
    ...{ database, control, log, publicUrl },
    innerHosts: config.innerHosts,
    settleMs: config.reviewSettleMs,
    nudge,
  });
  const masks = new TenantMasks(control.catalog.secrets);
  const triggers = new Triggers({ database, control, publicUrl, onRedelivery: nudge });
  const outbox = new Outbox({
    ...{ database, masks, metrics: control.metrics },
    topics: { codehost: codeHosts.topic },
  });
  const signIns = new SignIns({
    ...{ database, control, secrets, log, publicUrl },
    innerHosts: config.innerHosts,
  });
  const notifications = new Notifications({
    ...{ database, control, secrets, masks, publicUrl, nudge },
    innerHosts: config.innerHosts,
    mail: config.mail,
    settleMs: config.notificationSettleMs,
  });
  const processor = new Processor({
    ...{ database, metrics: control.metrics },
    effects: { integration: codeHosts.effect, trigger: triggers.effect },
  });
  const receiver = new Receiver({
    ...{ database, keys: control.keys, onDelivery: nudge },
    recipients: { integration: codeHosts.recipient, trigger: triggers.recipient },
  });
  const work = new WorkLoops({ database, log }, [
    loopOf('delivery', dueDeliveries, processor),
    ...codeHosts.work,
    loopOf('outbox', dueItems, outbox),
    loopOf('schedule', dueSchedules, control.schedules.due),
    ...notifications.work,
  ]);
  return { codeHosts, triggers, receiver, notifications, signIns, work };
}

/** A node in a process that the supervisor of the service has started. */
export async function runWorker(config: Config, log: Log, env: NodeJS.ProcessEnv): Promise<void> {
  // A terminal sends them to the supervisor too, which decides.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {});
  const workers = new WorkerChannel();
  try {
    const store = await connectStore(config, log);
    const secrets = await openSecrets(config, store.database, log);
    const { address, unready, shutdown } = await startNode({ config, log, store, workers, secrets, env });
    workers.onCommand('unready', async () => unready());
    const [[, endWaits], ...rest] = shutdown;
    workers.onCommand('drain', async () => {
      await endWaits();
      await workers.send({ type: 'drained' });
    });
    workers.onCommand('close', async () => {
      for (const [, close] of rest) await close();
      await store.close();
      process.exit(0);
    });
    await workers.send({ type: 'ready', address });
  } catch (error) {
    await workers.send(startFailure(error));
    process.exit(1);
  }
}

type ControlSettings = Pick<ControlOptions, 'secrets' | 'publicUrl' | 'metrics'> &
  Partial<Pick<ControlOptions, 'workers'>>;

export const openControl = (
  config: Config,
  { database, connection }: NodeOptions['store'],
  log: Log,
  { workers = null, ...settings }: ControlSettings,
): Control =>
  new Control({
    ...{ database, connection, log, workers, ...settings },
    defaultModel: config.defaultModel,
    models: config.models,
    leaseMs: config.leaseMs,
    timelineDays: config.timelineDays,
    timelineEntries: config.timelineEntries,
    quotas: config.quotas,
  });

/** For commands that create keys: these do not depend on the service secret. */
export const openControlForKeys = (config: Config, store: NodeOptions['store'], log: Log): Control =>
  openControl(config, store, log, {
    secrets: new ServiceSecrets(randomBytes(48).toString('base64url')),
    publicUrl: () => config.publicUrl ?? '',
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

/**
 * Listens no more, so that proxies connect to other nodes, and closes each connection after its next reply. Closing an
 * idle connection immediately would lose the request that a client is just sending on it: most are used again in this time.
 */
async function sendLastReplies(server: Server): Promise<void> {
  server.prependListener('request', (_request, response) => response.setHeader('connection', 'close'));
  const allClosed = new Promise<void>((resolve) => {
    // That of an HTTP server closes idle connections.
    NetServer.prototype.close.call(server, () => resolve());
  });
  const timeout = new AbortController();
  await Promise.race([allClosed, delay(lastRepliesMs, undefined, { signal: timeout.signal })]);
  timeout.abort();
}

/** Counts requests until their responses are closed. */
function countRequests(server: Server) {
  let open = 0;
  const closed = new WakeSignal();
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
