import { existsSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { bootstrap, makeKey } from '../control/access/bootstrap.ts';
import type { Control } from '../control/control.ts';
import { type Log, openLog } from '../lib/log.ts';
import { formatKey } from '../lib/token.ts';
import { workerNumber } from '../lib/worker-channel.ts';
import { abilitiesOf } from '../runner/harnesses.ts';
import type { SandboxChoice } from '../runner/sandbox/probe.ts';
import { schemaWatch } from '../store/migrate.ts';
import type { Flags, Invocation } from './command.ts';
import { type Config, readConfig } from './config.ts';
import { keyFile, signInUrl } from './connection.ts';
import { openDataFolder, readAdminKey, writeAddress, writeAdminKey } from './data-folder.ts';
import { readAccount } from './input.ts';
import {
  openControl,
  openControlForKeys,
  reachable,
  runWorker,
  type ShutdownStep,
  startNode,
} from './node.ts';
import { openSecrets } from './open-secrets.ts';
import { type OutputFormat, startOutput } from './output.ts';
import { chooseConfiguredSandbox } from './runner.ts';
import { RunnerProcess } from './runner-process.ts';
import { notifyReady, notifyStopping } from './service-manager.ts';
import { openStore } from './store.ts';
import { withSecretFiles } from './variables.ts';
import { startWorkers } from './workers.ts';

/**
 * Runs the API, a runner in its own process, and, unless DATABASE_URL is set, PostgreSQL. With one worker the API is in this
 * process. With several, this process supervises them and serves no request.
 */
export async function serve(given: NodeJS.ProcessEnv, format?: OutputFormat): Promise<void> {
  const env = withSecretFiles(given);
  const config = readConfig(env);
  const worker = workerNumber(env);
  if (worker !== null) return runWorker(config, openLog(config.logLevel, { worker }), env);
  const log = openLog(config.logLevel);
  const sandbox = config.runner && (await chooseConfiguredSandbox(config.runner));
  const runner = sandbox && new RunnerProcess(given, log);
  openDataFolder(config.dataFolder, log);
  const store = await openStore(config, log, { waitMs: config.databaseWaitMs });
  const closeStore = async (error: unknown) => {
    await store.close();
    throw error;
  };
  const secrets = await openSecrets(config, store.database, log).catch(closeStore);
  const control = openControl(config, store, log, { secrets, publicUrl: () => config.publicUrl ?? '' });
  const firstKey = await bootstrap(store.database, control, config.bootstrap, (key) =>
    writeAdminKey(config.dataFolder, key),
  );
  const starting =
    config.workers === 1
      ? startNode({ config, log, store, workers: null, secrets, env })
      : startWorkers(config.workers, config.port, log);
  const { address, unready, shutdown } = await starting.catch(closeStore);
  const url = reachable(address);
  const apiKey = control.keys.serviceRunnerKey();
  await runner?.serve({ url, apiKey, sandbox: sandbox?.sandbox ?? null }).catch(closeStore);
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
  const text = await startText({ config, env, sandbox, address, control, firstKey });
  const { dataFolder } = config;
  const data = {
    address,
    dataFolder,
    keyFile: existsSync(keyFile(dataFolder)) ? keyFile(dataFolder) : null,
    workers: config.workers,
  };
  process.stdout.write(startOutput(format, data, text));
  notifyReady(given, log);
}

interface Started {
  readonly config: Config;
  readonly env: NodeJS.ProcessEnv;
  readonly sandbox: SandboxChoice | null;
  readonly address: string;
  readonly control: Control;
  readonly firstKey: string | null;
}

async function startText({ config, env, sandbox, address, control, firstKey }: Started): Promise<string> {
  const { summary, rehearses } = abilitiesOf(env, config.models);
  const link = await signInLink(control, config, address, firstKey);
  const file = keyFile(config.dataFolder);
  const hasKeyFile = existsSync(file);
  const lines = [
    `Muster is ready at ${address}`,
    link && `  open      ${link}  (signs you in once; later use muster open)`,
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

/** Needs no key: who can read the server's data could read every secret anyway. */
export async function createOperator({ flags, output, env }: Invocation<Flags<'account'>>): Promise<void> {
  const account = readAccount(flags.account ?? 'operator');
  const config = readConfig(env);
  const log = openLog('warn');
  openDataFolder(config.dataFolder, log);
  const store = await openStore(config, log, { shares: true });
  const control = openControlForKeys(config, store, log);
  const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: config.bootstrap.org } as const;
  const name = `operator-${account}-${Date.now().toString(36)}`;
  const key = await makeKey(control, tenant, account, 'operator', name);
  output.answer({ account, token: name, key }, () =>
    output.line(`operator ${account}: ${key}  (shown once; token "${name}")`),
  );
  await store.close();
}
