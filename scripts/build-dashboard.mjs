import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Builds the dashboard into the folder that the service serves, unless the build there is newer than all its inputs.
 * `npm start` and `npm test` run this each time. It prints only errors.
 */
const root = fileURLToPath(new URL('..', import.meta.url));
const sources = join(root, 'packages/dashboard');
const built = join(root, 'packages/service/static/dashboard');
const document = join(built, 'index.html');
/** Built here and then moved, so that a service that starts in the meantime finds the previous build. */
const fresh = join(sources, 'dist', `page-${process.pid}`);

const inputs = [
  ...['src', 'public', 'index.html', 'vite.config.ts', 'package.json'].map((name) => join(sources, name)),
  join(root, 'packages/sdk/dist'),
  join(root, 'package-lock.json'),
];

/** The newest modification time; a folder changes when a file in it is deleted. */
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
  // Files edited during the build are newer than this.
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
    say('The dashboard was not rebuilt: vite is not installed (npm ci --include=dev).');
  } else {
    say('*** The dashboard was not built: vite is not installed (npm ci --include=dev).');
  }
}
