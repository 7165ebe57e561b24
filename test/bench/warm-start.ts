import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Agents } from '../support/agents.ts';
import { apiOf } from '../support/api.ts';
import { writeResource } from '../support/catalog.ts';
import { makeGitRemote } from '../support/git-remote.ts';
import { type AgentBench, backends, startAgentBench } from './agents.ts';
import { ceiling, say } from './report.ts';
import { here, median } from './tools.ts';

const rounds = 3;
/** Programs of other platforms and harnesses are larger than what a repository usually needs. */
const mostPackageBytes = 8 * 1024 * 1024;

/**
 * A new agent, from the call that spawns it to the arrival of its first model request at the stub, in a repository whose
 * dependencies are installed by set-up: when it has to run, and when another agent has started before.
 */
export async function warmStart(): Promise<void> {
  const bench = await startAgentBench();
  const registry = await startRegistry();
  try {
    const api = apiOf(bench.service);
    const remote = makeGitRemote(bench.folder, 'dependencies');
    remote.commit('main', registry.files);
    const agents = new Agents(api, 'dependencies');
    await writeResource(api, 'workspace', 'dependencies', { repos: [remote.url], environment: 'npm' });
    const environment = { setup: ['npm ci --no-audit --no-fund'], allowHosts: [registry.host] };
    const cold: number[] = [];
    const warm: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      // Another generation, for which set-up runs again.
      await writeResource(api, 'environment', 'npm', environment);
      cold.push(await firstRequestMs(bench, agents, `cold-${round}`));
      warm.push(await firstRequestMs(bench, agents, `warm-${round}`));
    }
    const seconds = (ms: readonly number[]) => (median(ms) / 1000).toFixed(1);
    say(`      npm ci of ${registry.packages} packages: cold ${seconds(cold)} s, warm ${seconds(warm)} s`);
    ceiling('first model request of a new agent, warm against cold', median(warm) / median(cold), 0.2);
  } finally {
    registry.server.close();
    await bench.close();
  }
}

async function firstRequestMs({ stub }: AgentBench, agents: Agents, name: string): Promise<number> {
  const [{ model }] = backends;
  const text = `Say that it is done. ${stub.script([{ say: 'Done.' }])}`;
  const arrived = stub.whenSeen(({ body }) => JSON.stringify(body).includes(text));
  const from = performance.now();
  await agents.spawn(name, { model, description: text });
  const ended = agents.wait(name).then(({ error }) => {
    if (error) throw new Error(`${name}: ${error.message}`);
  });
  await Promise.race([arrived, ended.then(() => arrived)]);
  const ms = performance.now() - from;
  await ended;
  return ms;
}

interface Registry {
  readonly server: Server;
  readonly host: string;
  /** package.json and its lock. */
  readonly files: Readonly<Record<string, string>>;
  readonly packages: number;
}

/** Serves the packages that are installed here, so that nothing is downloaded. */
async function startRegistry(): Promise<Registry> {
  const tarballs = new Map<string, Buffer>();
  const server = createServer((request, response) => {
    const found = tarballs.get(decodeURIComponent(request.url ?? ''));
    if (found) response.end(found);
    else response.writeHead(404).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const dependencies: Record<string, string> = {};
  const locked: Record<string, unknown> = {};
  for (const { name, version, tarball } of installedPackages()) {
    const path = `/${name}/-/${version}.tgz`;
    tarballs.set(path, tarball);
    const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
    dependencies[name] = version;
    locked[`node_modules/${name}`] = { version, resolved: `http://${host}${path}`, integrity };
  }
  const root = { name: 'dependencies', version: '1.0.0', dependencies };
  const lock = { ...root, lockfileVersion: 3, requires: true, packages: { '': root, ...locked } };
  const files = {
    'package.json': JSON.stringify(root),
    'package-lock.json': JSON.stringify(lock),
    '.gitignore': 'node_modules\n',
  };
  return { server, host, files, packages: tarballs.size };
}

function* installedPackages(): Generator<{ name: string; version: string; tarball: Buffer }> {
  const modules = here('../../node_modules');
  const names = readdirSync(modules).flatMap((name) =>
    name.startsWith('@') ? readdirSync(join(modules, name)).map((part) => `${name}/${part}`) : [name],
  );
  for (const name of names) {
    const folder = join(modules, name);
    // Not the packages of this repository, which are links.
    if (realpathSync(folder) !== folder || !existsSync(join(folder, 'package.json'))) continue;
    const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string };
    const [kilobytes = ''] = execFileSync('du', ['-sk', folder], { encoding: 'utf8' }).split('\t');
    if (Number(kilobytes) * 1024 > mostPackageBytes) continue;
    const args = ['-cz', '-C', folder, '--exclude=./node_modules', '--transform=s,^\\.,package,', '.'];
    const tarball = execFileSync('tar', args, { maxBuffer: mostPackageBytes });
    yield { name, version, tarball };
  }
}
