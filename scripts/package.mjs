import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleService } from './bundle-service.mjs';
import { makeReady } from './ready.mjs';

/**
 * Makes the packages of a release in `dist`, or in the given folder: a tarball and an SBOM each of the service and the
 * SDK, and their checksums. The same commit always makes the same bytes. The bundle contains the libraries, so
 * the service depends only on its optional packages.
 */
const root = fileURLToPath(new URL('..', import.meta.url));
const service = join(root, 'packages/service');
const sdk = join(root, 'packages/sdk');
const target = resolve(process.argv[2] ?? join(root, 'dist'));
const staging = mkdtempSync(join(tmpdir(), 'muster-package-'));

const readJson = (...path) => JSON.parse(readFileSync(join(...path), 'utf8'));
const writeJson = (file, value) => writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);
const sha256 = (data) => createHash('sha256').update(data).digest('hex');
const lock = readJson(root, 'package-lock.json').packages;

function stageSdk(folder) {
  // Not the folder of the build, which may still have files whose sources are gone.
  const plain = ['--composite', 'false', '--sourceMap', 'false', '--noCheck'];
  const compile = ['-p', sdk, '--outDir', join(folder, 'dist'), ...plain];
  execFileSync(join(root, 'node_modules/.bin/tsc'), compile, { stdio: 'inherit' });
  stageTexts(sdk, folder);
  return [];
}

/** Returns the packages inside. */
async function stageService(folder) {
  const bundled = await bundleService(join(folder, 'dist/bundle'));
  for (const name of ['bin', 'migrations', 'prices.json', 'scripts', 'static'])
    cpSync(join(service, name), join(folder, name), { recursive: true });
  mkdirSync(join(folder, 'docs'));
  for (const name of readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md')))
    cpSync(join(root, 'docs', name), join(folder, 'docs', name));
  const licenses = join(folder, 'static/dashboard/.vite');
  const packages = [...packagesOf(bundled), ...readJson(licenses, 'licenses.json')];
  rmSync(licenses, { recursive: true });
  const byName = new Map(packages.map((one) => [`${one.name} ${one.version}`, one]));
  const inside = [...byName.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
  writeFileSync(
    join(folder, 'THIRD-PARTY-LICENSES.txt'),
    inside
      .map(({ name, version, identifier, text }) => `${name} ${version} (${identifier})\n\n${text ?? ''}\n`)
      .join('\n---\n\n'),
  );
  stageTexts(service, folder);
  return inside;
}

/** The README, the license, and what npm needs of a package.json once everything is inside. */
function stageTexts(source, folder) {
  const { dependencies, devDependencies, files, ...manifest } = readJson(source, 'package.json');
  writeJson(join(folder, 'package.json'), { ...manifest, publishConfig: { access: 'public' } });
  cpSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
  const readme = readFileSync(join(source, 'README.md'), 'utf8');
  writeFileSync(
    join(folder, 'README.md'),
    readme.replaceAll(/\[([^\]]+)\]\(\.\.\/\.\.\/([^)#]+)(#[^)]+)?\)/g, linkInside(folder)),
  );
}

/** A link out of the package becomes one inside, or plain text. */
const linkInside =
  (folder) =>
  (_, text, path, hash = '') =>
    existsSync(join(folder, path)) ? `[${text}](${path}${hash})` : text;

/** The packages that these files belong to, in the format in which Vite lists those of the dashboard. */
function packagesOf(files) {
  const folders = files.map((file) => /^.*\/node_modules\/(@[^/]+\/)?[^/]+/.exec(file)?.[0]).filter(Boolean);
  return [...new Set(folders)].map((folder) => {
    const { name, version, license } = readJson(folder, 'package.json');
    const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
    return {
      name,
      version,
      identifier: license,
      text: file && readFileSync(join(folder, file), 'utf8').trim(),
    };
  });
}

/** Everyone may read the files, whatever the umask of the checkout was. */
function setModes(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    chmodSync(path, entry.isDirectory() || basename(folder) === 'bin' ? 0o755 : 0o644);
    if (entry.isDirectory()) setModes(path);
  }
}

/** Returns the path of the tarball. */
function pack(folder) {
  setModes(folder);
  const options = ['--json', '--ignore-scripts', '--pack-destination', target];
  const [{ filename }] = JSON.parse(execFileSync('npm', ['pack', folder, ...options], { cwd: target }));
  return join(target, filename);
}

/** The time of the commit, or SOURCE_DATE_EPOCH where there is no repository. */
function commitTime() {
  const { SOURCE_DATE_EPOCH: given } = process.env;
  const seconds =
    given ?? execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: root, encoding: 'utf8' });
  return new Date(Number(seconds) * 1000).toISOString();
}

const purl = (name, version) => `pkg:npm/${name.replace('@', '%40')}@${version}`;

function component(type, name, version, license) {
  const ref = purl(name, version);
  const isExpression = license && !license.startsWith('SEE ');
  const licenses = isExpression ? [{ expression: license }] : [{ license: { name: license ?? 'unknown' } }];
  return { type, 'bom-ref': ref, name, version, purl: ref, licenses };
}

/** A CycloneDX document. Its time is that of the commit, because the same commit makes the same bytes. */
function sbom(tarball, manifest, inside) {
  const { name, version, license, optionalDependencies = {} } = manifest;
  const optional = Object.entries(optionalDependencies).map(([name, version]) => ({
    ...component('library', name, version, lock[`node_modules/${name}`]?.license),
    scope: 'optional',
  }));
  const components = [
    ...inside.map(({ name, version, identifier }) => component('library', name, version, identifier)),
    ...optional,
  ];
  const hashes = [{ alg: 'SHA-256', content: sha256(readFileSync(tarball)) }];
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      timestamp: commitTime(),
      component: {
        ...component('application', name, version, license),
        hashes,
      },
    },
    components,
    dependencies: [{ ref: purl(name, version), dependsOn: components.map((one) => one['bom-ref']) }],
  };
}

makeReady();
mkdirSync(target, { recursive: true });
try {
  const sums = [];
  for (const [source, stage] of [
    [service, stageService],
    [sdk, stageSdk],
  ]) {
    const folder = join(staging, basename(source));
    mkdirSync(folder);
    const inside = await stage(folder);
    const tarball = pack(folder);
    const list = tarball.replace(/\.tgz$/, '.cdx.json');
    writeJson(list, sbom(tarball, readJson(folder, 'package.json'), inside));
    for (const file of [tarball, list]) sums.push(`${sha256(readFileSync(file))}  ${basename(file)}\n`);
  }
  writeFileSync(join(target, 'SHA256SUMS'), sums.join(''));
  process.stdout.write(sums.join(''));
} finally {
  rmSync(staging, { recursive: true });
}
