import { createHash } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import type { Server } from 'node:http';
import { hostname } from 'node:os';
import { bootstrap } from '../control/bootstrap.ts';
import { Control } from '../control/control.ts';
import { Metrics } from '../http/metrics.ts';
import { buildServer } from '../http/server.ts';
import { openLog } from '../lib/log.ts';
import { abilitiesOf } from '../runner/credentials.ts';
import { type Runner, startRunner } from '../runner/runner.ts';
import { sent } from '../store/connection.ts';
import type { Config } from './config.ts';
import { keepKey, keyFile, openDataFolder, serviceSecret } from './data-folder.ts';
import { openStore } from './store.ts';

/** How long a request may still take when the service goes down. */
const lastWordsMs = 5_000;

const say = (line = ''): void => void process.stdout.write(`${line}\n`);

/** One process tree: the API, one runner, and, unless DATABASE_URL names another, PostgreSQL. */
export async function serve(config: Config, env: NodeJS.ProcessEnv): Promise<void> {
  const log = openLog(config.logLevel);
  openDataFolder(config.dataFolder);
  const store = await openStore(config, log);
  const closing = new AbortController();
  // Every wait and stream listens to it.
  setMaxListeners(0, closing.signal);
  const metrics = new Metrics(() => sent.statements);
  let address = '';
  const publicUrl = () => config.publicUrl ?? address;
  const control = new Control({
    pool: store.pool,
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
    publicUrl,
    closing: closing.signal,
  });
  const requests = openRequests(app.server);
  address = await app.listen({ host: config.host, port: config.port });
  const firstKey = await bootstrap(store.pool, control, config.bootstrap, (key) =>
    keepKey(config.dataFolder, key),
  );
  await control.start();
  const abilities = abilitiesOf(env);
  const runner = config.runner ? startOwnRunner(config, control, address, abilities, log) : null;
  greet(config, env, address, firstKey, abilities, store.isEmbedded);

  let isClosing = false;
  const shutDown = async (): Promise<void> => {
    if (isClosing) process.exit(1);
    isClosing = true;
    closing.abort();
    await runner?.drain();
    const closed = app.close();
    await requests.done(lastWordsMs);
    app.server.closeAllConnections();
    await closed;
    await control.close();
    await store.close();
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
}

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

type Abilities = ReturnType<typeof abilitiesOf>;

function startOwnRunner(
  config: Config,
  control: Control,
  url: string,
  abilities: Abilities,
  log: ReturnType<typeof openLog>,
): Runner {
  const place = createHash('sha256').update(config.dataFolder).digest('hex').slice(0, 8);
  return startRunner({
    url,
    apiKey: control.keys.serviceRunnerKey(),
    name: `${hostname()}-${place}`,
    dataFolder: config.dataFolder,
    turnMs: config.rehearsalMs,
    log,
    build: '0.1.0',
    ...abilities,
  });
}

function greet(
  config: Config,
  env: NodeJS.ProcessEnv,
  address: string,
  firstKey: string | null,
  abilities: Abilities,
  isEmbedded: boolean,
): void {
  say(`Muster is ready at ${address}`);
  say(
    `  data      ${config.dataFolder}${isEmbedded ? ' (PostgreSQL inside)' : ' (PostgreSQL at DATABASE_URL)'}`,
  );
  if (firstKey && !config.bootstrap.key) say(`  key       ${firstKey}  (shown once)`);
  say(`  key file  ${keyFile(config.dataFolder)}`);
  const has = (key: string | undefined) => (key ? 'key found' : 'no key');
  say(`  backends  Claude Code: ${has(env.ANTHROPIC_API_KEY)} · Codex: ${has(env.OPENAI_API_KEY)}`);
  if (abilities.rehearses) {
    say('  No provider key is set: the rehearsal agent plays every model, and no model is behind it.');
  }
  if (!['127.0.0.1', 'localhost', '::1'].includes(config.host)) {
    say(`  WARNING: ${config.host} can be reached from other machines. Put TLS in front of it.`);
  }
}
