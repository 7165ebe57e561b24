import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request as httpsRequest, Agent as TlsAgent } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { freePort } from '../support/database-servers.ts';
import { isInstalled } from '../support/system-packages.ts';
import { Node } from './node.ts';
import { printFigures, times, withinMs } from './tier.ts';

/** `npm run test:deep` restarts ten times, with a thousand requests a second. */
const restarts = times('MUSTER_CRASH_RESTARTS', 2);
const perSecond = times('MUSTER_CRASH_RATE', 100);

const proxies = ['haproxy', 'nginx'] as const;
type ProxyName = (typeof proxies)[number];
const missing = proxies.filter((program) => !isInstalled(program));
if (missing.length > 0) process.stderr.write(`\n*** ROLLING RESTARTS ARE NOT TESTED: no ${missing}\n\n`);

const cleanUps: (() => unknown)[] = [];
afterAll(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

interface Certificate {
  readonly folder: string;
  readonly ca: string;
}

function makeCertificate(): Certificate {
  const folder = mkdtempSync(join(tmpdir(), 'muster-proxies-'));
  cleanUps.push(() => rmSync(folder, { recursive: true, force: true }));
  const out = ['-keyout', join(folder, 'muster.key'), '-out', join(folder, 'muster.crt')];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...out, ...subject], {
    stdio: 'ignore',
  });
  const ca = readFileSync(join(folder, 'muster.crt'), 'utf8');
  writeFileSync(join(folder, 'muster.pem'), ca + readFileSync(join(folder, 'muster.key'), 'utf8'));
  return { folder, ca };
}

/** The file of deploy/proxy for these nodes, and a command that starts the proxy in the foreground. */
const commands: Readonly<Record<ProxyName, (config: string, folder: string) => readonly string[]>> = {
  haproxy: (config, folder) => {
    writeFileSync(join(folder, 'haproxy.cfg'), config);
    return ['haproxy', '-db', '-f', join(folder, 'haproxy.cfg')];
  },
  nginx: (config, folder) => {
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => {
      mkdirSync(join(folder, name));
      return `${name}_temp_path ${join(folder, name)};`;
    });
    const user = process.getuid?.() === 0 ? 'user root;' : '';
    writeFileSync(
      join(folder, 'nginx.conf'),
      `${user} daemon off; pid ${join(folder, 'nginx.pid')}; error_log stderr;
       events { worker_connections 4096; }
       http { access_log off; ${temporary.join(' ')}\n${config}\n}`,
    );
    return ['nginx', '-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr'];
  },
};

/** As docs/operations.md shows it, in front of these nodes. */
async function startProxy(name: ProxyName, nodes: readonly Node[], { folder, ca }: Certificate) {
  const port = await freePort();
  const file = name === 'haproxy' ? 'haproxy.cfg' : 'nginx.conf';
  let config = readFileSync(fileURLToPath(new URL(`../../deploy/proxy/${file}`, import.meta.url)), 'utf8')
    .replace(/(bind :|listen )443/, `$1${port}`)
    // The limit of open files may be lower here.
    .replace(/maxconn \d+/, 'maxconn 2000')
    .replace(/\/etc\/(haproxy|nginx)\//g, `${folder}/`);
  for (const [i, { url }] of nodes.entries())
    config = config.replaceAll(`10.0.0.${i + 1}:8420`, new URL(url).host);
  const [command = '', ...args] = commands[name](config, folder);
  const env = { PATH: `${process.env.PATH}:/usr/sbin` };
  const child: ChildProcess = spawn(command, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  cleanUps.push(async () => {
    if (child.exitCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGTERM');
    await gone;
  });
  const load = new SteadyLoad(`https://127.0.0.1:${port}`, ca, nodes[0]?.key ?? '');
  await until(
    `${name} ready`,
    async () => {
      if (child.exitCode !== null) throw new Error(`${name} ended: ${output}`);
      return load.statusOf('GET', '/readyz').catch(() => 0);
    },
    (status) => status === 200,
  );
  return { load, output: () => output };
}

/** Sends requests at a fixed rate, does not wait for their replies, and retries none. */
class SteadyLoad {
  readonly failures: string[] = [];
  sent = 0;
  longestMs = 0;
  readonly #url: string;
  readonly #key: string;
  readonly #agent: TlsAgent;
  readonly #open = new Set<Promise<void>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(url: string, ca: string, key: string) {
    this.#url = url;
    this.#key = key;
    this.#agent = new TlsAgent({ keepAlive: true, maxSockets: 64, scheduling: 'fifo', ca });
    cleanUps.push(() => this.#agent.destroy());
  }

  statusOf(method: string, path: string, body?: unknown): Promise<number> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${this.#key}`, 'content-type': 'application/json' };
      const request = httpsRequest(
        `${this.#url}${path}`,
        { method, headers, agent: this.#agent },
        (response) => {
          response.once('error', reject);
          response.once('end', () => resolve(response.statusCode ?? 0));
          response.resume();
        },
      );
      request.once('error', reject);
      request.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  start(rate: number): void {
    const startMs = performance.now();
    this.#timer = setInterval(() => {
      const due = ((performance.now() - startMs) / 1000) * rate;
      while (this.sent < due) this.#send();
    }, 10);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#open);
  }

  #send(): void {
    this.sent += 1;
    const n = this.sent;
    const startMs = performance.now();
    // Every third one changes something.
    const agentId = { agent: ['labelled'] };
    const answered =
      n % 3 === 0
        ? this.statusOf('POST', '/v1/agent/labels', { agentId, labels: { n: String(n) } })
        : this.statusOf('GET', '/v1/whoami');
    const done = answered
      .then(
        (status) => status !== 200 && this.failures.push(`${n}: ${status}`),
        (error: Error) => this.failures.push(`${n}: ${error.message}`),
      )
      .then(() => {
        this.longestMs = Math.max(this.longestMs, Math.round(performance.now() - startMs));
        this.#open.delete(done);
      });
    this.#open.add(done);
  }
}

test.skipIf(missing.length > 0)(
  'no request fails while nodes behind HAProxy and nginx are restarted one after the other',
  withinMs(restarts, 30_000),
  async () => {
    const env = { MUSTER_PUBLIC_URL: 'https://muster.example.com' };
    const one = await Node.start({ runner: false, env });
    cleanUps.push(() => one.close());
    const other = await Node.start({ runner: false, env, databaseUrl: await one.databaseUrl() });
    cleanUps.push(() => other.close());
    await new Agents(one.api, 'default').spawn('labelled');
    const nodes = [one, other];
    const certificate = makeCertificate();
    const loads = await Promise.all(proxies.map((name) => startProxy(name, nodes, certificate)));
    const startMs = performance.now();
    for (const { load } of loads) load.start(perSecond / loads.length);
    for (let i = 0; i < restarts; i += 1) {
      const node = nodes[i % 2] as Node;
      await node.server.end('SIGTERM');
      expect(node.server.process.exitCode, node.logTail()).toBe(0);
      await node.start();
      // As docs/operations.md says: the next one when the proxy uses this one again.
      const state = new RegExp(`Server nodes/node-${(i % 2) + 1} is (UP|DOWN)`, 'g');
      await until(
        'the node in use again',
        async () => [...(loads[0]?.output() ?? '').matchAll(state)].at(-1)?.[1],
        (last) => last !== 'DOWN',
      );
    }
    await Promise.all(loads.map(({ load }) => load.stop()));
    const seconds = (performance.now() - startMs) / 1000;
    for (const [i, { load }] of loads.entries())
      printFigures(`rolling restarts behind ${proxies[i]}`, {
        restarts,
        requests: load.sent,
        'a second': Math.round(load.sent / seconds),
        'longest ms': load.longestMs,
        failed: load.failures.length,
      });
    const failures = loads.map(({ load }) => load.failures.slice(0, 10));
    const logs = loads.map(({ output }) => output().slice(-4_000)).join('\n');
    expect(failures, logs).toEqual([[], []]);
  },
);
