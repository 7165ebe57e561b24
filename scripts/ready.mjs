import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Installs what the lock file says and builds what has changed. `npm start`, `npm test` and `npm run check` begin with
 * this, so it needs nothing but Node. If everything is there it reads names and times of files, and starts no program.
 */
const root = fileURLToPath(new URL('..', import.meta.url));
const builtFile = join(root, 'packages/service/dist/built');

const steps = [
  ['node_modules/.bin/tsc', '-b'],
  ...['bundle-service', 'build-dashboard', 'compress-static'].map((name) => [
    process.execPath,
    `scripts/${name}.mjs`,
  ]),
];

const say = (line) => process.stderr.write(`${line}\n`);

function run([command, ...args]) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit' });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

function packagesIn(file) {
  const { packages } = JSON.parse(readFileSync(join(root, file), 'utf8'));
  return Object.entries(packages).filter(([path, { link }]) => /(^|\/)node_modules\//.test(path) && !link);
}

/** npm notes what it has installed. Optional packages for other systems are missing there. */
export function isInstalled() {
  const installed = 'node_modules/.package-lock.json';
  if (!existsSync(join(root, installed))) return false;
  const versions = new Map(packagesIn(installed).map(([path, { version }]) => [path, version]));
  return packagesIn('package-lock.json').every(([path, { version, optional }]) =>
    versions.has(path) ? versions.get(path) === version : optional,
  );
}

const isInput = (name) => !/^(dist|static|node_modules)$|\.test\.tsx?$|\.tsbuildinfo$/.test(name);

function addInputs(folder, digest) {
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (!isInput(entry.name)) continue;
    if (entry.isDirectory()) {
      addInputs(path, digest);
      continue;
    }
    const { size, mtimeMs } = statSync(join(root, path));
    digest.update(`${path}\0${size}\0${mtimeMs}\n`);
  }
}

/** Changes with every file that a build reads. */
function inputsDigest() {
  const digest = createHash('sha256').update(process.version);
  for (const folder of ['packages', 'scripts']) addInputs(folder, digest);
  for (const file of ['tsconfig.json', 'tsconfig.base.json', 'package-lock.json'])
    digest.update(readFileSync(join(root, file)));
  return digest.digest('hex');
}

export function build() {
  const inputs = inputsDigest();
  if (existsSync(builtFile) && readFileSync(builtFile, 'utf8') === inputs) return;
  rmSync(builtFile, { force: true });
  for (const step of steps) run(step);
  // What was changed meanwhile is built the next time.
  writeFileSync(builtFile, inputs);
}

export function makeReady() {
  if (!isInstalled()) {
    say('Installing packages. The first time this takes a minute or two.');
    const npm = process.env.npm_execpath;
    run([...(npm ? [process.execPath, npm] : ['npm']), 'ci', '--ignore-scripts', '--no-audit', '--no-fund']);
  }
  if (!existsSync(builtFile)) say('Building. The first time this takes about half a minute.');
  build();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv[2] === 'build') build();
  else makeReady();
}
