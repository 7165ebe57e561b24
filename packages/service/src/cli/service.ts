import { existsSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { bootstrap } from '../control/access/bootstrap.ts';
import type { Control } from '../control/control.ts';
import type { Log } from '../lib/log.ts';
import { formatKey } from '../lib/token.ts';
import { abilitiesOf } from '../runner/harnesses.ts';
import type { SandboxChoice } from '../runner/sandbox/probe.ts';
import { schemaWatch } from '../store/migrate.ts';
import type { Config } from './config.ts';
import { keyFile, signInUrl } from './connection.ts';
import { readAdminKey, writeAddress, writeAdminKey } from './data-folder.ts';
import { installationHere, openControl, reachable, type ShutdownStep, startNode } from './node.ts';
import { openSecrets } from './open-secrets.ts';
import { type OutputFormat, startOutput } from './output.ts';
import type { RunnerProcess } from './runner-process.ts';
import { notifyReady, notifyStopping } from './service-manager.ts';
import type { OpenStore } from './store.ts';
import { startWorkers } from './workers.ts';

export interface ServiceOptions {
  readonly config: Config;
  /** With the files that its variables name. */
  readonly env: NodeJS.ProcessEnv;
  readonly log: Log;
  readonly store: OpenStore;
  readonly runner: RunnerProcess | null;
  readonly sandbox: SandboxChoice | null;
  readonly format: OutputFormat | undefined;
}

/** Starts the API, or the workers that do, and the runner; says that they are ready; and ends them with a signal. */
export async function startService(options: ServiceOptions): Promise<void> {
  const { config, env, log, store, runner, sandbox, format } = options;
  const secrets = await openSecrets(config, store.database, log);
  const control = openControl(config, store, log, { secrets, publicUrl: () => config.publicUrl ?? '' });
  const firstKey = await bootstrap(store.database, control, config.bootstrap, (key) =>
    writeAdminKey(config.dataFolder, key),
  );
  const starting =
    config.workers === 1
      ? startNode({ config, log, store, workers: null, secrets, env })
      : startWorkers(config.workers, config.port, log);
  const { address, unready, shutdown } = await starting;
  const url = reachable(address);
  const apiKey = control.keys.serviceRunnerKey();
  await runner?.serve({ url, apiKey, sandbox: sandbox?.sandbox ?? null });
  writeAddress(config.dataFolder, url);
  log.info({ address, workers: config.workers }, 'service ready');
  const [endWaits, ...others] = shutdown;
  const drain = () => drainFor(config.drainMs, unready, runner);
  const shutDown = closeOnSignal(drain, config.shutdownMs, log, [
    endWaits,
    ['runner', async () => runner?.drain()],
    ...others,
    ['database', () => store.close()],
  ]);
  endWithSchema(store.database, log, () => shutDown(1)).catch((error) =>
    log.error({ err: error }, 'schema not watched'),
  );
  // Last, because a script that reads it may stop the service immediately.
  const text = await startText({ ...options, address, control, firstKey });
  const { dataFolder } = config;
  const data = {
    address,
    dataFolder,
    keyFile: existsSync(keyFile(dataFolder)) ? keyFile(dataFolder) : null,
    workers: config.workers,
  };
  process.stdout.write(startOutput(format, data, text));
  notifyReady(env, log);
}

interface Started extends Pick<ServiceOptions, 'config' | 'env' | 'sandbox'> {
  readonly address: string;
  readonly control: Control;
  readonly firstKey: string | null;
}

async function startText({ config, env, sandbox, address, control, firstKey }: Started): Promise<string> {
  const { summary, rehearses } = abilitiesOf(env, config.models);
  const link = await signInLink(control, config, address, firstKey);
  const file = keyFile(config.dataFolder);
  const hasKeyFile = existsSync(file);
  const { command } = installationHere(config, env);
  const lines = [
    `Muster is ready at ${address}`,
    link && `  open      ${link}  (signs you in once; later use ${command} open)`,
    config.workers > 1 && `  workers   ${config.workers}`,
    `  data      ${config.dataFolder} (PostgreSQL ${config.databaseUrl ? 'at DATABASE_URL' : 'inside'})`,
    // Only in a terminal: logs are stored, and others read them.
    firstKey && !config.bootstrap.key && process.stdout.isTTY && `  key       ${firstKey}  (shown once)`,
    hasKeyFile && `  key file  ${file}`,
    `  backends  ${summary.join(' · ')}`,
    !sandbox && '  runner    off (MUSTER_RUNNER): agents wait for a muster runner',
    sandbox && `  sandbox   ${sandbox.note}`,
    sandbox && rehearses && '  No provider key is set: every agent is a rehearsal, without a model.',
    !isLoopback(config.host) &&
      `  WARNING: other machines can reach ${config.host}. Put a TLS proxy in front of it.`,
  ];
  return `${lines.filter(Boolean).join('\n')}\n`;
}

const schemaMs = 10_000;

/** Ends the service when a newer version has migrated the schema beyond what this build can use. */
async function endWithSchema(database: pg.Pool, log: Log, end: () => void): Promise<void> {
  const problemOf = await schemaWatch();
  for (;;) {
    await pause(schemaMs, undefined, { ref: false });
    // Others report that the database is unavailable.
    const problem = await problemOf(database).catch(() => null);
    if (problem === null) continue;
    log.fatal({ problem }, 'schema too new; shutting down');
    return end();
  }
}

/** Proxies send requests elsewhere meanwhile, and the runner lets its runs end. */
async function drainFor(ms: number, unready: () => void, runner: RunnerProcess | null): Promise<void> {
  unready();
  if (ms === 0) return;
  void runner?.drain();
  await pause(ms);
}

/** A second signal exits immediately. Returns what shuts down with another exit code. */
function closeOnSignal(
  drain: () => Promise<void>,
  withinMs: number,
  log: Log,
  steps: readonly ShutdownStep[],
): (code: number) => void {
  let isClosing = false;
  const shutDown = (code: number): void => {
    if (isClosing) return;
    isClosing = true;
    notifyStopping(process.env, log);
    drain()
      .then(() => closeInOrder(withinMs, log, steps))
      .then(() => process.exit(code))
      .catch((error) => {
        log.fatal({ err: error }, 'shutdown failed');
        process.exit(1);
      });
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => (isClosing ? process.exit(1) : shutDown(0)));
  return shutDown;
}

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
