import type { Server } from 'node:http';
import { limits } from '@muster/sdk/contract';
import { bootstrap, makeKey } from '../control/bootstrap.ts';
import { Control } from '../control/control.ts';
import { Metrics } from '../http/metrics.ts';
import { buildServer } from '../http/server.ts';
import { Change } from '../lib/change.ts';
import { type Log, openLog } from '../lib/log.ts';
import { formatKey } from '../lib/token.ts';
import { abilitiesOf } from '../runner/harnesses.ts';
import { sent } from '../store/connection.ts';
import { type Config, ConfigError, readConfig } from './config.ts';
import { keyFile, signInUrl } from './connection.ts';
import { openDataFolder, readAdminKey, serviceSecret, writeAddress, writeAdminKey } from './data-folder.ts';
import { chooseConfiguredSandbox, startConfiguredRunner } from './runner.ts';
import { type OpenStore, openStore } from './store.ts';

/** How long requests may take to end during the shutdown. */
const requestsMs = 5_000;

/** Runs the API, a runner, and, unless DATABASE_URL is set, PostgreSQL. */
export async function serve(env: NodeJS.ProcessEnv): Promise<void> {
  const config = readConfig(env);
  const log = openLog(config.logLevel);
  const sandbox = config.runner && (await chooseConfiguredSandbox(config.runner));
  openDataFolder(config.dataFolder, log);
  const store = await openStore(config, log);
  const closing = new AbortController();
  const metrics = new Metrics(() => sent.statements);
  let address = '';
  const publicUrl = () => config.publicUrl ?? address;
  const control = openControl(config, store, log, publicUrl, (size) => metrics.batches.observe(size));
  const app = buildServer({
    control,
    log,
    metrics,
    rateLimit: config.rateLimit,
    keepAliveMs: config.keepAliveMs,
    publicUrl,
    closing: closing.signal,
  });
  const requests = countRequests(app.server);
  address = await app.listen({ host: config.host, port: config.port }).catch(async (error: unknown) => {
    await store.close();
    throw listenError(config, error);
  });
  const firstKey = await bootstrap(store.database, control, config.bootstrap, (key) =>
    writeAdminKey(config.dataFolder, key),
  );
  writeAddress(config.dataFolder, reachable(address));
  await control.start();
  const abilities = abilitiesOf(env);
  const runner =
    config.runner && sandbox
      ? await startConfiguredRunner(config.runner, abilities, {
          url: reachable(address),
          apiKey: control.keys.serviceRunnerKey(),
          sandbox: sandbox.sandbox,
          environment: env,
          log,
        })
      : null;

  let isClosing = false;
  const shutDown = async (): Promise<void> => {
    if (isClosing) process.exit(1);
    isClosing = true;
    closing.abort();
    await closeInOrder(config.shutdownMs, log, [
      ['runner', () => runner?.drain()],
      [
        'requests',
        async () => {
          const closed = app.close();
          await requests.ended(requestsMs);
          app.server.closeAllConnections();
          await closed;
        },
      ],
      ['timers and batches', () => control.close()],
      ['database', () => store.close()],
    ]);
    process.exit(0);
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      shutDown().catch((error) => {
        log.fatal({ err: error }, 'shutdown failed');
        process.exit(1);
      });
    });
  }
  const link = await signInLink(control, config, address, firstKey);
  // Last, because a script that reads it may stop the service immediately.
  const lines = [
    `Muster is ready at ${address}`,
    link && `  open      ${link}  (signs you in once; later use muster open)`,
    `  data      ${config.dataFolder} (PostgreSQL ${store.isEmbedded ? 'inside' : 'at DATABASE_URL'})`,
    // Only in a terminal: logs are stored, and others read them.
    firstKey && !config.bootstrap.key && process.stdout.isTTY && `  key       ${firstKey}  (shown once)`,
    `  key file  ${keyFile(config.dataFolder)}`,
    `  backends  ${abilities.summary.join(' · ')}`,
    sandbox && `  sandbox   ${sandbox.note}`,
    abilities.rehearses && '  No provider key is set: every agent is a rehearsal, without a model.',
    !isLoopback(config.host) &&
      `  WARNING: other machines can reach ${config.host}. Put a TLS proxy in front of it.`,
  ];
  process.stdout.write(`${lines.filter(Boolean).join('\n')}\n`);
}

type ShutdownStep = readonly [name: string, close: () => Promise<void> | undefined];

/**
 * Closes one part after the other, and exits when that takes too long: without its database, a runner would wait for
 * the end of its lease. Nothing stored is lost, as after a crash.
 */
async function closeInOrder(withinMs: number, log: Log, steps: readonly ShutdownStep[]): Promise<void> {
  const open = steps.map(([name]) => name);
  const timer = setTimeout(() => {
    log.error({ open, shutdownSeconds: withinMs / 1_000 }, 'shutdown timed out');
    process.exit(1);
  }, withinMs);
  for (const [, close] of steps) {
    await close();
    open.shift();
  }
  clearTimeout(timer);
}

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

/** A server that listens on all interfaces is reached by the loopback address. */
const reachable = (address: string): string => address.replace(/\/\/(0\.0\.0\.0|\[::\])/, '//127.0.0.1');

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

/**
 * A link that signs in as the admin, once. Only for a service that no other machine can reach, because there only
 * the operator reads the output. Null when no valid admin key is known.
 */
async function signInLink(
  control: Control,
  config: Config,
  address: string,
  firstKey: string | null,
): Promise<string | null> {
  if (!isLoopback(config.host)) return null;
  const { key } = config.bootstrap;
  for (const known of [firstKey, key && formatKey(key), readAdminKey(config.dataFolder)]) {
    const caller = known ? await control.keys.authenticate(known) : null;
    if (!known || caller?.role !== 'admin') continue;
    const made = await control.signInCodes.make(caller, limits.firstSignInCodeMinutes);
    if (made) return signInUrl(`${address}/`, made.code);
  }
  return null;
}

const isLoopback = (host: string): boolean => ['127.0.0.1', 'localhost', '::1'].includes(host);

const openControl = (
  config: Config,
  store: OpenStore,
  log: Log,
  publicUrl: () => string,
  onBatch?: (size: number) => void,
): Control =>
  new Control({
    database: store.database,
    connection: store.connection,
    log,
    secret: serviceSecret(config.dataFolder, config.secret),
    publicUrl,
    defaultModel: config.defaultModel,
    leaseMs: config.leaseMs,
    ...(onBatch && { onBatch }),
  });

/** Needs no key: who can read the server's data could read every secret anyway. */
export async function createOperator(account: string, env: NodeJS.ProcessEnv): Promise<void> {
  const config = readConfig(env);
  const log = openLog('warn');
  openDataFolder(config.dataFolder, log);
  const store = await openStore(config, log, { shares: true });
  const control = openControl(config, store, log, () => config.publicUrl ?? '');
  const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: config.bootstrap.org } as const;
  const name = `operator-${account}-${Date.now().toString(36)}`;
  const key = await makeKey(control, tenant, account, 'operator', name);
  process.stdout.write(`operator ${account}: ${key}  (shown once; token "${name}")\n`);
  await store.close();
}
