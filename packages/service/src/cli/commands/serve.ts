import type { Server } from 'node:http';
import { bootstrap } from '../../control/bootstrap.ts';
import { Control } from '../../control/control.ts';
import { Metrics } from '../../http/metrics.ts';
import { buildServer } from '../../http/server.ts';
import { type Log, openLog } from '../../lib/log.ts';
import { type Abilities, abilitiesOf } from '../../runner/harnesses.ts';
import { sent } from '../../store/connection.ts';
import { type Config, readConfig } from '../config.ts';
import { keepAddress, keepKey, keyFile, openDataFolder, serviceSecret } from '../data-folder.ts';
import { ConfigError } from '../environment.ts';
import { isLoopback, signInLink } from '../sign-in-link.ts';
import { chooseConfiguredSandbox, startConfiguredRunner } from '../start-runner.ts';
import { openStore } from '../store.ts';

/** How long a request may still take when the service goes down. */
const lastWordsMs = 5_000;

const say = (line = ''): void => void process.stdout.write(`${line}\n`);

/** One process tree: the API, one runner, and, unless DATABASE_URL names another, PostgreSQL. */
export async function run(env: NodeJS.ProcessEnv): Promise<void> {
  const config = readConfig(env);
  const log = openLog(config.logLevel);
  const sandbox = config.runner && (await chooseConfiguredSandbox(config.runner));
  openDataFolder(config.dataFolder, log);
  const store = await openStore(config, log);
  const closing = new AbortController();
  const metrics = new Metrics(() => sent.statements);
  let address = '';
  const publicUrl = () => config.publicUrl ?? address;
  const control = new Control({
    database: store.database,
    connection: store.connection,
    log,
    secret: serviceSecret(config.dataFolder, config.secret),
    publicUrl,
    defaultModel: config.defaultModel,
    leaseMs: config.leaseMs,
    onBatch: (size) => metrics.observeBatch(size),
  });
  const app = buildServer({
    control,
    log,
    metrics,
    rateLimit: config.rateLimit,
    keepAliveMs: config.keepAliveMs,
    publicUrl,
    closing: closing.signal,
  });
  const requests = openRequests(app.server);
  address = await app.listen({ host: config.host, port: config.port }).catch(async (error: unknown) => {
    await store.close();
    throw listenFailure(config, error);
  });
  const firstKey = await bootstrap(store.database, control, config.bootstrap, (key) =>
    keepKey(config.dataFolder, key),
  );
  keepAddress(config.dataFolder, reachable(address));
  await control.start();
  const abilities = abilitiesOf(env);
  const own =
    config.runner && sandbox
      ? await startConfiguredRunner({
          config: config.runner,
          sandbox: sandbox.sandbox,
          abilities,
          environment: env,
          url: reachable(address),
          apiKey: control.keys.serviceRunnerKey(),
          log,
        })
      : null;

  let isClosing = false;
  const shutDown = async (): Promise<void> => {
    if (isClosing) process.exit(1);
    isClosing = true;
    closing.abort();
    await inOrder(config.shutdownMs, log, [
      ['runner', () => own?.drain()],
      [
        'requests',
        async () => {
          const closed = app.close();
          await requests.done(lastWordsMs);
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
        log.fatal({ err: error }, 'the shutdown failed');
        process.exit(1);
      });
    });
  }
  const link = await signInLink(control, config, address, firstKey);
  // Whoever reads it may stop the service the next moment.
  greet({ config, address, link, firstKey, abilities, sandbox: sandbox?.note, isEmbedded: store.isEmbedded });
}

type ShutdownStep = readonly [name: string, close: () => Promise<void> | undefined];

/**
 * Closes one part after the other, and ends the process when that takes too long: a runner whose reports find no
 * database would wait for the end of its lease. Nothing stored is lost, as after a crash.
 */
async function inOrder(withinMs: number, log: Log, steps: readonly ShutdownStep[]): Promise<void> {
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

/** What is wrong with MUSTER_HOST or MUSTER_PORT, in one line. */
function listenFailure({ host, port }: Config, error: unknown): Error {
  const { code = '' } = error as NodeJS.ErrnoException;
  const problems: Readonly<Record<string, string>> = {
    EADDRINUSE: `MUSTER_PORT: port ${port} of ${host} is in use; stop what listens there, or set another port`,
    EACCES: `MUSTER_PORT: no permission to listen on port ${port}; use one above 1023`,
    EADDRNOTAVAIL: `MUSTER_HOST: ${host} is not an address of this machine`,
    ENOTFOUND: `MUSTER_HOST: the name ${host} has no address`,
  };
  const problem = problems[code];
  return problem === undefined ? (error as Error) : new ConfigError(problem);
}

/** An address that means every interface is reached by the loopback. */
const reachable = (address: string): string => address.replace(/\/\/(0\.0\.0\.0|\[::\])/, '//127.0.0.1');

/** Counts the requests that are being answered, however they end. */
function openRequests(server: Server) {
  let open = 0;
  let wake: () => void = () => {};
  server.on('request', (_request, response) => {
    open += 1;
    response.once('close', () => {
      open -= 1;
      if (open === 0) wake();
    });
  });
  return {
    done: (withinMs: number): Promise<void> =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, withinMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
        if (open === 0) wake();
      }),
  };
}

function greet(facts: {
  readonly config: Config;
  readonly address: string;
  readonly link: string | null;
  readonly firstKey: string | null;
  readonly abilities: Abilities;
  readonly sandbox: string | undefined;
  readonly isEmbedded: boolean;
}): void {
  const { config, address, link, firstKey, abilities, sandbox, isEmbedded } = facts;
  say(`Muster is ready at ${address}`);
  if (link) say(`  open      ${link}  (signs you in once; later: muster open)`);
  say(
    `  data      ${config.dataFolder}${isEmbedded ? ' (PostgreSQL inside)' : ' (PostgreSQL at DATABASE_URL)'}`,
  );
  // What is not a terminal is a log, and a log is kept and read by others.
  if (firstKey && !config.bootstrap.key && process.stdout.isTTY) say(`  key       ${firstKey}  (shown once)`);
  say(`  key file  ${keyFile(config.dataFolder)}`);
  say(`  backends  ${abilities.summary.join(' · ')}`);
  if (sandbox !== undefined) say(`  sandbox   ${sandbox}`);
  if (abilities.rehearses) {
    say('  No provider key is set: the rehearsal agent plays every model, and no model is behind it.');
  }
  if (!isLoopback(config.host)) {
    say(`  WARNING: ${config.host} can be reached from other machines. Put TLS in front of it.`);
  }
}
