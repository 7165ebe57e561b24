import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AgentStatus, type Caller, routes } from '@muster/sdk/contract';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startEmbeddedPostgres } from '../../packages/service/src/store/embedded/embedded-postgres.ts';
import { type Api, agent, apiOf, statusOf, untilStatus } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, postResource, readResource, uniqueName } from '../support/catalog.ts';
import { databaseUrl, emptyDatabase, freshDatabase } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { bootstrapKey, program, type Server, type ServerOptions, startServer } from '../support/server.ts';
import { openRequest } from '../support/streams.ts';
import { inAnHour } from '../support/test-tenant.ts';

/** A server with default settings that no test changes. */
let plain: Server;
beforeAll(async () => {
  plain = await startServer({ runner: false });
});
afterAll(() => plain?.close());

const open: Server[] = [];
const folders: string[] = [];

async function start(options: ServerOptions = {}): Promise<Server> {
  const server = await startServer({ runner: false, ...options });
  open.push(server);
  return server;
}

/** Starts a service that must refuse to start, and returns its output. */
async function refusedStart(options: ServerOptions): Promise<string> {
  const outcome = await startServer({ runner: false, databaseUrl: plain.databaseUrl, ...options }).then(
    async (server) => {
      await server.close();
      return undefined;
    },
    (error: Error) => error.message,
  );
  if (outcome === undefined) throw new Error('it started');
  expect(outcome).toMatch(/ended with [1-9]/);
  return outcome;
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'muster-start-'));
  folders.push(folder);
  return folder;
}

afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A port that nobody listens on. */
async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, 'close');
  return port;
}

const keyPattern = /mst_[A-Za-z0-9-]+\.[A-Za-z0-9_-]{27,}/g;
const text = (server: Server): string => server.output.join('');
/** The start-up text, when it contains this. */
const said = (server: Server, what: RegExp): Promise<string> =>
  until(
    String(what),
    async () => text(server),
    (seen) => seen.search(what) >= 0,
  );
const whoami = async (api: Api): Promise<Caller> => expectOk(await api.get<Caller>('/v1/whoami'));

/** The plain files of a folder, without the files of PostgreSQL itself. */
function filesOf(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isFile()) return [path];
    if (!entry.isDirectory()) return [];
    return readdirSync(path).includes('PG_VERSION') ? [] : filesOf(path);
  });
}
const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8);

describe('the start-up text', () => {
  test('has the address', async () => {
    expect(plain.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(text(plain)).toContain(`ready at ${plain.url}`);
    expectOk(await apiOf(plain).get('/v1/whoami'));
  });

  const withoutKey = (data: string) => ({ MUSTER_DATA: data, MUSTER_BOOTSTRAP_KEY: undefined });
  const isFirstAdmin = {
    tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'local' },
    ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
    account: 'admin',
    role: 'admin',
  };

  describe('with one data folder', () => {
    const data = mkdtempSync(join(tmpdir(), 'muster-start-'));
    const env = { ...withoutKey(data), MUSTER_SECRET: undefined };
    let first: Server;
    beforeAll(async () => {
      first = await startServer({ runner: false, env });
    });
    afterAll(async () => {
      await first?.close();
      rmSync(data, { recursive: true, force: true });
    });

    test('the first start creates one admin key, and prints to a log only where it is stored', async () => {
      const printed = await said(first, /key file .*\s/);
      expect(printed).not.toMatch(keyPattern);
      const [, file = ''] = /key file +(.*)/.exec(printed) ?? [];
      const key = readFileSync(file, 'utf8').trim();
      expect(await whoami(apiOf({ url: first.url, key }))).toMatchObject(isFirstAdmin);
      expect(filesOf(data).filter((path) => readFileSync(path, 'utf8').includes(key))).toEqual([file]);
      expect(mode(file)).toBe('600');
    });

    test('a later start neither creates nor prints a key; without MUSTER_SECRET the service secret is a file of mode 0600 that stays', async () => {
      const secrets = filesOf(data).filter((path) => path !== join(data, 'address'));
      expect(secrets.map(mode)).toEqual(['600', '600']);
      const before = secrets.map((path) => readFileSync(path, 'utf8'));
      for (const content of before)
        if (content.trim() !== '') expect(text(first)).not.toContain(content.trim());
      await first.end();
      const second = await start({ env, databaseUrl: first.databaseUrl });
      const key = readFileSync(join(data, 'admin.key'), 'utf8').trim();
      expect(await whoami(apiOf({ url: second.url, key }))).toMatchObject({ role: 'admin' });
      expect(text(second)).not.toMatch(keyPattern);
      expect(secrets.map((path) => readFileSync(path, 'utf8'))).toEqual(before);
    });
  });

  test('the first start prints the key once to a terminal', async () => {
    const data = newFolder();
    const database = await emptyDatabase();
    const terminal = spawn(
      'script',
      ['-qfec', `exec "${process.execPath}" "${program}" serve`, '/dev/null'],
      {
        env: { ...plain.env, ...withoutKey(data), DATABASE_URL: database.url },
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    let shown = '';
    terminal.stdout.on('data', (chunk: Buffer) => {
      shown += chunk.toString();
    });
    try {
      await until(
        'the key file',
        async () => shown,
        (seen) => /key file .*\s/.test(seen),
      );
      const key = readFileSync(join(data, 'admin.key'), 'utf8').trim();
      expect(shown.match(keyPattern)).toEqual([key]);
    } finally {
      const gone = once(terminal, 'exit');
      terminal.kill('SIGTERM');
      await gone;
      await database.drop();
    }
  });

  test('without any provider key it says that every model is rehearsed, and starts without a sandbox', async () => {
    const server = await start({ runner: true, env: { PATH: newFolder() } });
    await said(server, /rehears/i);
    await said(server, withoutSandbox);
    const api = apiOf(server);
    for (const model of ['opus', 'gpt-5']) {
      const name = uniqueName('rehearsed');
      const body = { agentId: agent(name), description: 'hello', model };
      expectOk(await api.post('/v1/agent/spawn', body));
      const status = await untilStatus(
        api,
        [name],
        'rest',
        ({ phase }) => phase === 'PHASE_WAITING_FOR_INPUT',
      );
      expect(status).toMatchObject({ model, rehearsed: true });
    }
  });

  const withoutSandbox = /AGENTS RUN WITHOUT A SANDBOX/;
  /** What the start-up text says about one backend. */
  const about = (backend: RegExp, seen: string): string =>
    new RegExp(`(${backend.source})[^\\n·]*`, 'i').exec(seen)?.[0] ?? '';
  const backends = { A: /backend A|Claude Code/, B: /backend B|Codex/ };

  test.each([
    ['ANTHROPIC_API_KEY', 'A', 'B'],
    ['OPENAI_API_KEY', 'B', 'A'],
  ] as const)(
    'with %s it says that backend %s has credentials and %s has none, never the key; without a sandbox it starts no runner and says what to install or to set',
    async (variable, has, lacks) => {
      const secret = 'sk-canary-0123456789abcdef';
      const env = { [variable]: secret, PATH: newFolder() };
      const refused = await refusedStart({ runner: true, env });
      expect(refused).toContain('apt-get install bubblewrap');
      expect(refused).toMatch(/MUSTER_SANDBOX=auto .* or MUSTER_SANDBOX=off/);
      expect(refused).not.toMatch(/^ +at /m);
      // A node without a runner runs no agents.
      const keyed = await said(await start({ env }), backends.B);
      const unkeyed = await said(plain, backends.B);
      expect(about(backends[has], unkeyed)).not.toBe('');
      expect(about(backends[has], keyed)).not.toBe(about(backends[has], unkeyed));
      expect(about(backends[lacks], keyed)).toBe(about(backends[lacks], unkeyed));
      for (const printed of [refused, keyed]) expect(printed).not.toContain(secret);
    },
  );

  test('with any provider key only rehearsal-* models are rehearsed, without a sandbox when told so', async () => {
    const env = {
      OPENAI_API_KEY: 'sk-canary-0123456789abcdef',
      OPENAI_BASE_URL: 'http://127.0.0.1:9',
      MUSTER_SANDBOX: 'auto',
      PATH: newFolder(),
    };
    const server = await start({ runner: true, env });
    await said(server, withoutSandbox);
    const api = apiOf(server);
    expectOk(
      await api.post('/v1/agent/spawn', { agentId: agent('a'), description: 'hi', model: 'rehearsal-a' }),
    );
    const status = await untilStatus(api, ['a'], 'rest', ({ phase }) => phase === 'PHASE_WAITING_FOR_INPUT');
    expect(status.rehearsed).toBe(true);
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent('b'), description: 'hi', model: 'opus' }));
    // No runner here can run a model of backend A: that agent waits, and the next one runs.
    expectOk(
      await api.post('/v1/agent/spawn', { agentId: agent('c'), description: 'hi', model: 'rehearsal-a' }),
    );
    await untilStatus(api, ['c'], 'rest', ({ phase }) => phase === 'PHASE_WAITING_FOR_INPUT');
    expect(await statusOf(api, 'b')).toMatchObject({
      phase: 'PHASE_PENDING',
      rehearsed: false,
      runCount: '0',
    });
  });

  test('with a provider key and no sandbox `muster runner` does not start either', async () => {
    const env = { ANTHROPIC_API_KEY: 'sk-canary-0123456789abcdef', PATH: newFolder() };
    const args = ['runner', '--url', 'http://127.0.0.1:9', '--key', bootstrapKey(), '--data', newFolder()];
    const child = spawn(process.execPath, [program, ...args], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: 60_000,
    });
    let complaint = '';
    child.stderr.on('data', (chunk: Buffer) => {
      complaint += chunk;
    });
    const [code] = await once(child, 'close');
    expect(code).toBe(1);
    expect(complaint).toContain('apt-get install bubblewrap');
  });

  test('with MUSTER_SANDBOX=off it starts without a sandbox and says so', async () => {
    const env = { OPENAI_API_KEY: 'sk-canary-0123456789abcdef', MUSTER_SANDBOX: 'off', PATH: newFolder() };
    await said(await start({ runner: true, env }), withoutSandbox);
  });
});

describe('variables', () => {
  describe('of one service', () => {
    const key = `mst_chosen.${'s'.repeat(32)}`;
    let server: Server;
    let api: Api;
    beforeAll(async () => {
      server = await startServer({
        runner: false,
        env: {
          MUSTER_HOST: '0.0.0.0',
          MUSTER_BOOTSTRAP_KEY: key,
          MUSTER_BOOTSTRAP_ORG: 'acme',
          MUSTER_BOOTSTRAP_ACCOUNT: 'ada',
          MUSTER_PUBLIC_URL: 'https://muster.example.org/fleet/',
          MUSTER_DEFAULT_MODEL: 'rehearsal-b',
        },
      });
      api = apiOf({ url: `http://127.0.0.1:${new URL(server.url).port}`, key });
      expectOk(await api.post('/v1/agent/spawn', { agentId: agent('a'), description: 'x' }));
    });
    afterAll(() => server?.close());

    test('MUSTER_BOOTSTRAP_KEY supplies the first key', async () => {
      expect(await whoami(api)).toMatchObject({ keyId: 'chosen', role: 'admin' });
      expect(text(server)).not.toContain(key);
    });

    test('MUSTER_BOOTSTRAP_ORG and MUSTER_BOOTSTRAP_ACCOUNT change the names', async () => {
      expect(await whoami(api)).toMatchObject({
        tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'acme' },
        ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
        account: 'ada',
        role: 'admin',
      });
    });

    test('MUSTER_HOST may be reachable from outside, which is a warning without TLS in front', async () => {
      await said(server, /warn.*TLS/i);
      expect(await said(plain, /backend/i)).not.toMatch(/TLS/);
    });

    test('MUSTER_PUBLIC_URL is the start of dashboardUrl', async () => {
      const { dashboardUrl } = await statusOf(api, 'a');
      expect(dashboardUrl).toMatch(/^https:\/\/muster\.example\.org\/fleet\/[^/]/);
      const body = { agentId: agent('b'), description: 'x' };
      const spawned = expectOk(await api.post<{ dashboardUrl: string }>('/v1/agent/spawn', body));
      const { entries } = expectOk(await api.post<{ entries: { dashboardUrl: string }[] }>('/v1/agents', {}));
      expect(entries.map((entry) => entry.dashboardUrl)).toEqual([spawned.dashboardUrl, dashboardUrl]);
    });

    test('MUSTER_DEFAULT_MODEL is the model of an agent that names none', async () => {
      expect(await statusOf(api, 'a')).toMatchObject({ model: 'rehearsal-b', backend: 'BACKEND_B' });
    });
  });

  test('without MUSTER_PUBLIC_URL dashboardUrl has the address it listens on', async () => {
    const body = { agentId: agent('at-home'), description: 'x' };
    const { dashboardUrl } = expectOk(
      await apiOf(plain).post<{ dashboardUrl: string }>('/v1/agent/spawn', body),
    );
    expect(new URL(dashboardUrl).origin).toBe(plain.url);
  });

  test('a MUSTER_BOOTSTRAP_KEY with a short secret is refused at start, without repeating it', async () => {
    const said = await refusedStart({ env: { MUSTER_BOOTSTRAP_KEY: `mst_id.${'s'.repeat(31)}` } });
    expect(said).toContain('MUSTER_BOOTSTRAP_KEY');
    expect(said).not.toContain('s'.repeat(31));
  });

  test('an invalid variable ends the start with one line that names the variable and its value', async () => {
    const outcome = await refusedStart({ env: { MUSTER_PUBLIC_URL: 'not a url' } });
    const [, ...lines] = outcome.trim().split('\n');
    expect(lines).toEqual([expect.stringContaining('MUSTER_PUBLIC_URL')]);
    expect(lines[0]).toContain('not a url');
  });

  test('a port that is in use ends the start with a line that names it, and no stack trace', async () => {
    const { port } = new URL(plain.url);
    const outcome = await refusedStart({ env: { MUSTER_PORT: port } });
    expect(outcome).toMatch(new RegExp(`MUSTER_PORT: port ${port} of 127.0.0.1 is in use`));
    expect(outcome).not.toMatch(/^ +at /m);
    expect((await apiOf(plain).get('/readyz')).status).toBe(200);
  });

  test('/readyz is 200 only when the first key works', async () => {
    const port = await freePort();
    const key = bootstrapKey();
    const starting = start({ env: { MUSTER_PORT: String(port), MUSTER_BOOTSTRAP_KEY: key } });
    const api = apiOf({ url: `http://127.0.0.1:${port}`, key });
    const ready = () => api.get('/readyz').catch(() => null);
    await until('200', ready, (answer) => answer?.status === 200);
    const answers = await Promise.all(Array.from({ length: 50 }, () => api.get('/v1/whoami')));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    await starting;
  });

  test('without variables it listens on 127.0.0.1:8420 and keeps its data in ./.muster', async (context) => {
    if (!(await isFree(8420))) context.skip('port 8420 is in use');
    const folder = newFolder();
    const child = spawn(process.execPath, [program, 'serve'], {
      cwd: folder,
      env: { PATH: process.env.PATH, HOME: folder },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const exited = once(child, 'exit');
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    try {
      const ready = async () => /key file/.test(output) || child.exitCode !== null;
      await until('the greeting', ready, (seen) => seen, 50_000);
      expect(output).toContain('ready at http://127.0.0.1:8420');
      const data = join(folder, '.muster');
      expect(readdirSync(data).length).toBeGreaterThan(0);
      const key = readFileSync(join(data, 'admin.key'), 'utf8').trim();
      const api = apiOf({ url: 'http://127.0.0.1:8420', key });
      expect(await whoami(api)).toMatchObject({ role: 'admin' });
      // The service's own runner and the embedded PostgreSQL run too.
      expectOk(await api.post('/v1/agent/spawn', { agentId: agent('first'), description: '!say hello' }));
      const status = await untilStatus(
        api,
        ['first'],
        'rest',
        ({ phase }) => phase === 'PHASE_WAITING_FOR_INPUT',
      );
      expect(status.response).toBe('hello');
    } finally {
      child.kill('SIGTERM');
      const [code] = (await exited) as [number | null];
      expect(code).toBe(0);
    }
  });

  const isFree = (port: number): Promise<boolean> =>
    new Promise((resolve) => {
      const probe = createServer();
      probe.once('error', () => resolve(false));
      probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
    });
});

describe('restart', () => {
  test('a service restarted after SIGTERM and after SIGKILL has everything as it was', async () => {
    const database = await freshDatabase();
    const data = newFolder();
    const options = {
      databaseUrl: database.url,
      env: { MUSTER_DATA: data, MUSTER_BOOTSTRAP_KEY: bootstrapKey() },
    };
    const first = await start(options);
    const api = apiOf(first);
    const parent = agent('parent');
    expectOk(
      await api.post('/v1/agent/spawn', {
        agentId: parent,
        description: 'work',
        expectedOutput: 'done',
        tasks: [{ id: 'a', blocks: ['b'] }, { id: 'b' }],
        model: 'rehearsal-b',
        serviceTier: 'flex',
        outputSchema: '{"type":"object"}',
      }),
    );
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent('parent', 'child'), description: 'x' }));
    expectOk(await api.post('/v1/agent/queue', { agentId: parent, description: 'next', fastMode: true }));
    const later = { agentId: parent, description: 'later', deliverAt: inAnHour() };
    expectOk(await api.post('/v1/agent/queue', later));
    const { api: member, key } = await createKey(api, { role: 'member', account: 'mia' });
    expectOk(await member.post('/v1/agent/spawn', { agentId: agent('hers'), description: 'x' }));
    expectOk(await postResource(api, 'workspace', 'ours', { repos: ['https://example.org/r.git'] }));
    expectOk(await postResource(api, 'workspace', 'ours', { model: 'opus' }, { updateMask: 'model' }));

    const everything = async (caller: Api) => ({
      parent: withoutAddress(await statusOf(caller, 'parent')),
      child: withoutAddress(await statusOf(caller, 'parent', 'child')),
      timeline: (await caller.post('/v1/agent/timeline', { agentId: parent })).body,
      workspace: (await readResource(caller, 'workspace', 'ours')).body,
      history: (await caller.get('/v1/catalog/workspace/ours/history')).body,
      caller: await whoami(caller),
    });
    const before = await everything(api);
    let last = first;
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await last.end(signal);
      last = await start(options);
      expect(await everything(apiOf(last)), signal).toEqual(before);
      const again = apiOf({ url: last.url, key });
      expect(await whoami(again)).toMatchObject({ account: 'mia', role: 'member' });
      expect((await statusOf(again, 'hers')).agentId.account).toBe('mia');
    }
    await last.close();
    await database.drop();
  });

  /** The port differs between two starts. */
  const withoutAddress = ({ dashboardUrl, ...rest }: AgentStatus) => rest;
});

describe('the permissions of the data folder', () => {
  test('a folder and files that others could read are made private, and the log says so', async () => {
    const data = newFolder();
    const secret = join(data, 'secret');
    writeFileSync(secret, 'a-secret-that-everyone-could-read-until-now');
    chmodSync(secret, 0o644);
    chmodSync(data, 0o775);
    const server = await start({ env: { MUSTER_DATA: data, MUSTER_SECRET: undefined } });
    expect(mode(data)).toBe('700');
    expect(filesOf(data).map(mode)).toEqual(filesOf(data).map(() => '600'));
    const printed = text(server);
    expect(printed).toMatch(/"was":"775".*data folder permissions fixed/);
    expect(printed).toMatch(/"was":"644".*data folder permissions fixed/);
  });

  test.runIf(process.getuid?.() === 0)('a folder of another user is refused', async () => {
    const data = newFolder();
    chownSync(data, 12_345, 12_345);
    expect(await refusedStart({ env: { MUSTER_DATA: data } })).toMatch(
      /data folder .* belongs to uid 12345, and this process runs as uid 0.*MUSTER_DATA/,
    );
  });
});

describe('the data folder', () => {
  const embedded = (data: string, more: Record<string, string> = {}): ServerOptions => ({
    env: { DATABASE_URL: undefined, MUSTER_DATA: data, ...more },
  });

  test('without DATABASE_URL it runs its own PostgreSQL in the data folder, for one service only', async () => {
    const data = newFolder();
    const env = { MUSTER_BOOTSTRAP_KEY: bootstrapKey() };
    const first = await start(embedded(data, env));
    const api = apiOf(first);
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent('a'), description: 'kept' }));
    await first.end('SIGTERM');
    const second = await start(embedded(data, env));
    const again = apiOf({ url: second.url, key: first.key });
    expect((await statusOf(again, 'a')).description).toBe('kept');
    await second.end('SIGKILL');
    const third = await start(embedded(data, env));
    expect(await refusedStart(embedded(data))).toContain(data);
    expect((await statusOf(apiOf(third), 'a')).description).toBe('kept');
  });
});

describe('pages of the process itself', () => {
  const get = (path: string) => sendRaw(plain.url, { method: 'GET', path });

  test.each(['/healthz', '/readyz'])('%s answers 200 without a key', async (path) => {
    expect((await get(path)).status).toBe(200);
  });

  test('/openapi.json describes every route, without a key', async () => {
    const { status, body, headers } = await get('/openapi.json');
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^application\/json\b/);
    const { openapi, paths, servers } = body as {
      openapi: string;
      paths: Record<string, Record<string, unknown>>;
      servers: { url: string }[];
    };
    expect(openapi).toMatch(/^3\.1\./);
    expect(servers[0]?.url).toBe(plain.url);
    for (const { path, method } of Object.values(routes)) {
      expect(paths[path]).toHaveProperty(method.toLowerCase());
    }
  });

  test('/metrics answers in the format of Prometheus', async () => {
    const { status, text: body, headers } = await get('/metrics');
    expect(status).toBe(200);
    expect(headers.get('content-type')).toMatch(/^text\/plain/);
    expect(body).toMatch(/^# TYPE \w+ (counter|gauge|histogram)$/m);
  });
});

describe('shutdown', () => {
  const exitOf = async ({ process: child }: Server): Promise<number | null> => {
    child.kill('SIGTERM');
    await until(
      'the process to exit',
      async () => child.exitCode ?? child.signalCode,
      (seen) => seen !== null,
    );
    return child.exitCode;
  };

  test('at SIGTERM a wait that has sent nothing ends 503 UNAVAILABLE, one that has sent white space is cut, and the process exits 0', async () => {
    const server = await start();
    const api = apiOf(server);
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent('a'), description: 'x' }));
    const begun = openRequest(api, '/v1/agent/wait', { agentId: agent('a') });
    await until(
      'white space',
      async () => begun.text(),
      (seen) => seen !== '',
    );
    const waits = [
      openRequest(api, '/v1/agent/wait', { agentId: agent('a') }),
      openRequest(api, '/v1/agents/wait', { agentIds: [agent('a')] }),
    ];
    const streams = [
      openRequest(api, '/v1/agent/timeline/stream', { agentId: agent('a') }),
      openRequest(api, '/v1/agents/stream', {}),
    ];
    for (const stream of streams) expect(await stream.opened).toBe(200);
    // Requests sent after the waits have been answered, so the waits have arrived.
    await statusOf(api, 'a');
    expect(await exitOf(server)).toBe(0);
    for (const wait of waits) {
      const { status, text: body, cut } = await wait.ended;
      expect(cut).toBe(false);
      const headers = new Headers({ 'content-type': 'application/json' });
      expectError({ status, body: JSON.parse(body), headers }, 'UNAVAILABLE');
    }
    for (const stream of streams) await stream.ended;
    const { status, text: body, cut } = await begun.ended;
    expect(status).toBe(200);
    expect(body.trim()).toBe('');
    expect(cut).toBe(true);
  });

  test('a service with idle connections exits 0 at SIGTERM', async () => {
    const server = await start({ runner: true });
    await whoami(apiOf(server));
    expect(await exitOf(server)).toBe(0);
  });

  test('what was acknowledged before the shutdown is stored', async () => {
    const server = await start();
    const api = apiOf(server);
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent('a'), description: 'x' }));
    let acknowledged = 0;
    // Enough concurrent requests that some are in progress when the signal arrives.
    const lanes = Array.from({ length: 8 }, async (_, lane) => {
      for (let n = 0; ; n += 1) {
        const body = { agentId: agent('a'), description: 'x', followUpId: `f${lane}-${n}` };
        const answer = await api.post('/v1/agent/queue', body).catch(() => undefined);
        if (answer?.status !== 200) return;
        acknowledged += 1;
      }
    });
    await until(
      'some messages',
      async () => acknowledged,
      (count) => count > 40,
    );
    expect(await exitOf(server)).toBe(0);
    await Promise.all(lanes);
    const next = await start({ databaseUrl: server.databaseUrl });
    const { followUps } = await statusOf(apiOf({ url: next.url, key: server.key }), 'a');
    expect(followUps.length).toBeGreaterThanOrEqual(acknowledged);
    expect(followUps.length).toBeLessThanOrEqual(acknowledged + lanes.length);
  });

  test('a shutdown without its database ends in bounded time, says what is open, and loses nothing', async () => {
    const folder = newFolder();
    const first = await startEmbeddedPostgres({ folder });
    const env = {
      MUSTER_DATA: newFolder(),
      MUSTER_BOOTSTRAP_KEY: bootstrapKey(),
      MUSTER_SHUTDOWN_SECONDS: '1',
    };
    const options = { databaseUrl: databaseUrl(first, first.connection.database), env };
    const server = await start({ ...options, runner: true });
    const api = apiOf(server);
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent('a'), description: '!sleep 600' }));
    await untilStatus(api, ['a'], 'a run', ({ phaseReason }) => phaseReason === 'WORKING');
    await first.stop();
    // The runner's lease lasts for an hour.
    expect(await exitOf(server)).toBe(1);
    expect(text(server)).toMatch(/"open":\["runner",.*"database"\].*"shutdown timed out"/);
    const second = await startEmbeddedPostgres({ folder });
    const next = await start(options);
    expect(await statusOf(apiOf(next), 'a')).toMatchObject({ phase: 'PHASE_RUNNING', runCount: '1' });
    await next.end('SIGKILL');
    await second.stop();
  });
});
