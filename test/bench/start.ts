import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startEmbeddedPostgres } from '../../packages/service/src/store/embedded/embedded-postgres.ts';
import { program } from '../support/server.ts';
import { ceiling, say } from './report.ts';
import { median } from './tools.ts';

const rounds = 5;
const root = fileURLToPath(new URL('../../', import.meta.url));
const serve = [process.execPath, program, 'serve'];

/** `npm start` with everything there, against npm and the program themselves; and a first start, against PostgreSQL alone. */
export async function start(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'muster-bench-'));
  const took = {
    npm: [] as number[],
    script: [] as number[],
    serve: [] as number[],
    first: [] as number[],
    postgres: [] as number[],
  };
  try {
    const data = join(folder, 'kept');
    await readyMs(serve, data);
    // The first round only warms the system's caches.
    for (let round = 0; round <= rounds; round += 1) {
      const ms = {
        serve: await readyMs(serve, data),
        npm: await readyMs(['npm', 'start', '--silent'], data),
        script: await emptyScriptMs(folder),
        postgres: await postgresMs(join(folder, `postgres-${round}`)),
        first: await readyMs(serve, join(folder, `first-${round}`)),
      };
      if (round > 0)
        for (const name of ['npm', 'script', 'serve', 'first', 'postgres'] as const)
          took[name].push(ms[name]);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const seconds = (ms: readonly number[]) => (median(ms) / 1000).toFixed(2);
  say(
    `      ready after: muster serve ${seconds(took.serve)} s, npm start ${seconds(took.npm)} s; an empty npm script ${seconds(took.script)} s`,
  );
  say(
    `      npm start against muster serve: ${(median(took.npm) / median(took.serve)).toFixed(2)} (goal <= 1.2)`,
  );
  ceiling(
    'npm start with everything there against muster serve and an empty npm script',
    median(took.npm) / (median(took.serve) + median(took.script)),
    1.2,
  );
  say(
    `      initdb and start of PostgreSQL ${seconds(took.postgres)} s, first start ${seconds(took.first)} s`,
  );
  ceiling(
    'first start against PostgreSQL alone (goal <= 1.5)',
    median(took.first) / median(took.postgres),
    2.2,
  );
}

/** Starts the service, and ends it when it is ready. */
async function readyMs([command = '', ...args]: readonly string[], data: string): Promise<number> {
  const from = performance.now();
  const child = spawn(command, args, {
    cwd: root,
    env: { PATH: process.env.PATH, HOME: data, MUSTER_DATA: data, MUSTER_PORT: '0', MUSTER_LOG: 'fatal' },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  // When the service has ended too, not only npm.
  const closed = once(child, 'close');
  const ms = await new Promise<number>((resolve, reject) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (text.includes('ready at')) resolve(performance.now() - from);
    });
    child.once('exit', (code) => reject(new Error(`${command} ended with ${code}`)));
  });
  // The whole group, as Ctrl-C does: npm passes SIGTERM only to its shell.
  process.kill(-(child.pid ?? 0));
  await closed;
  return ms;
}

/** What npm itself takes, whatever it starts. */
async function emptyScriptMs(folder: string): Promise<number> {
  writeFileSync(join(folder, 'package.json'), '{ "scripts": { "start": "true" } }');
  const from = performance.now();
  await once(spawn('npm', ['start', '--silent'], { cwd: folder, stdio: 'ignore' }), 'close');
  return performance.now() - from;
}

async function postgresMs(folder: string): Promise<number> {
  const from = performance.now();
  const postgres = await startEmbeddedPostgres({ folder });
  const ms = performance.now() - from;
  await postgres.stop();
  return ms;
}
