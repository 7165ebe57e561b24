import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Builds the dashboard into the folder that the service serves, unless what is there is newer than everything it is
 * made of: `npm start` and `npm test` come by here each time. It says something only if something is wrong.
 */
const root = fileURLToPath(new URL('..', import.meta.url));
const sources = join(root, 'packages/dashboard');
const built = join(root, 'packages/service/static/dashboard');
const document = join(built, 'index.html');
/** Made beside, and moved when it is whole: a service that starts meanwhile finds the one before. */
const fresh = join(sources, 'dist', `page-${process.pid}`);

const inputs = [
  ...['src', 'public', 'index.html', 'vite.config.ts', 'package.json'].map((name) => join(sources, name)),
  join(root, 'packages/sdk/dist'),
  join(root, 'package-lock.json'),
];

/** When anything of it changed last. A folder changes when something goes from it. */
function newestMs(path) {
  if (!existsSync(path)) return 0;
  const stat = statSync(path);
  if (!stat.isDirectory()) return stat.mtimeMs;
  return Math.max(stat.mtimeMs, ...readdirSync(path).map((name) => newestMs(join(path, name))));
}

function viteProgram() {
  try {
    const { resolve } = createRequire(join(sources, 'package.json'));
    return join(dirname(resolve('vite/package.json')), 'bin/vite.js');
  } catch {
    return undefined;
  }
}

const say = (line) => process.stderr.write(`${line}\n`);
const isBuilt = existsSync(document);
const startedMs = Date.now();

function build(vite) {
  const { status, error } = spawnSync(
    process.execPath,
    [vite, 'build', '--logLevel', 'warn', '--emptyOutDir', '--outDir', fresh],
    { cwd: sources, stdio: 'inherit' },
  );
  if (status !== 0) throw new Error(`vite build failed${error ? `: ${error.message}` : ` (${status})`}`);
  // What was edited while it was built is newer than this.
  const started = new Date(startedMs);
  utimesSync(join(fresh, 'index.html'), started, started);
  mkdirSync(dirname(built), { recursive: true });
  rmSync(built, { recursive: true, force: true });
  renameSync(fresh, built);
}

if (!isBuilt || Math.max(...inputs.map(newestMs)) > statSync(document).mtimeMs) {
  const vite = viteProgram();
  if (vite) {
    try {
      build(vite);
    } catch (error) {
      say(`*** The dashboard was not built: ${error.message}`);
      process.exitCode = 1;
    } finally {
      rmSync(fresh, { recursive: true, force: true });
    }
  } else if (isBuilt) {
    say('The dashboard stays as it was built: vite is not installed (npm ci --include=dev).');
  } else {
    say(
      '*** There is no dashboard: vite is not installed, and without it nothing is built (npm ci --include=dev).',
    );
  }
}
