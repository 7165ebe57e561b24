import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SignedIn } from '@muster/sdk/contract';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type Api, agent, apiOf, statusOf, untilStatus } from '../support/api.ts';
import { until } from '../support/async.ts';
import { emptyDatabase } from '../support/database.ts';
import { expectOk } from '../support/expect-reply.ts';
import { bootstrapKey, program, type Server, startServer } from '../support/server.ts';
import { signInWithCode } from '../support/sign-in.ts';
import { createOperatorKey } from '../support/tenants.ts';
import { whoami } from './role-callers.ts';
import { cleanUp, filesOf, linkOf, mode, newFolder, outputOf, refusedStart, start } from './server-starts.ts';

/** A server with default settings that no test changes. */
let plain: Server;
/** Its replies as soon as it was ready. */
let firstReplies: Answer[];

beforeAll(async () => {
  const port = await freePort();
  const key = bootstrapKey();
  const starting = startServer({
    runner: false,
    env: { MUSTER_PORT: String(port), MUSTER_BOOTSTRAP_KEY: key },
  });
  const api = apiOf({ url: `http://127.0.0.1:${port}`, key });
  const ready = async () => {
    await until(
      '200',
      () => api.get('/readyz').catch(() => null),
      (answer) => answer?.status === 200,
    );
    return Promise.all(Array.from({ length: 50 }, () => api.get('/v1/whoami')));
  };
  [plain, firstReplies] = await Promise.all([starting, ready()]);
});

afterAll(() => plain?.close());
afterEach(cleanUp);

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

/** The start-up text, when it contains this. */
const said = (server: Server, what: RegExp): Promise<string> =>
  until(
    String(what),
    async () => outputOf(server),
    (seen) => seen.search(what) >= 0,
  );

const withoutSandbox = /AGENTS RUN WITHOUT A SANDBOX/;
/** What the start-up text says about one backend. */
const about = (backend: RegExp, seen: string): string =>
  new RegExp(`(${backend.source})[^\\n·]*`, 'i').exec(seen)?.[0] ?? '';
const backends = { A: /backend A|Claude Code/, B: /backend B|Codex/ };

const secret = 'sk-canary-0123456789abcdef';

/** The start-up text has this backend's credentials only, and never the key. */
async function expectCredentials(server: Server, has: 'A' | 'B', lacks: 'A' | 'B'): Promise<void> {
  const keyed = await said(server, backends.B);
  const unkeyed = await said(plain, backends.B);
  expect(about(backends[has], unkeyed)).not.toBe('');
  expect(about(backends[has], keyed)).not.toBe(about(backends[has], unkeyed));
  expect(about(backends[lacks], keyed)).toBe(about(backends[lacks], unkeyed));
  expect(keyed).not.toContain(secret);
}

const keyIdOf = (key: string): string | undefined => key.slice('mst_'.length).split('.')[0];

/** Signs in with the link in the start-up text, and returns the id of the key that it stands for. */
async function keyIdOfLink(server: Server): Promise<string> {
  const [page, code] = (await linkOf(server))?.split('#code=') ?? [];
  expect(page).toBe(`${server.url}/`);
  return (expectOk(await signInWithCode(server.url, code)) as SignedIn).caller.keyId;
}

describe('the start-up text', () => {
  test('has the address, and a link that signs in with the configured key; no rehearsal without a runner', async () => {
    expect(plain.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(outputOf(plain)).toMatch(new RegExp(`^Muster is ready at ${plain.url}$`, 'm'));
    expectOk(await apiOf(plain).get('/v1/whoami'));
    expect(await keyIdOfLink(plain)).toBe(keyIdOf(plain.key));
    expect(outputOf(plain)).toContain('  runner    off (MUSTER_RUNNER): agents wait for a muster runner\n');
    expect(outputOf(plain)).not.toContain('every agent is a rehearsal');
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

    test('the first start creates one admin key, and prints to a log only where it is stored, with a link that signs in', async () => {
      const printed = await said(first, /key file .*\s/);
      expect(printed).not.toMatch(keyPattern);
      const [, file = ''] = /key file +(.*)/.exec(printed) ?? [];
      const key = readFileSync(file, 'utf8').trim();
      expect(await whoami(apiOf({ url: first.url, key }))).toMatchObject(isFirstAdmin);
      expect(filesOf(data).filter((path) => readFileSync(path, 'utf8').includes(key))).toEqual([file]);
      expect(mode(file)).toBe('600');
      expect(await keyIdOfLink(first)).toBe(keyIdOf(key));
      // By these two files the command line finds the service.
      expect(file).toBe(join(data, 'admin.key'));
      expect(readFileSync(join(data, 'address'), 'utf8').trim()).toBe(first.url);
    });

    test('a later start creates and prints no key, keeps the secret file of mode 0600, and exits with 0 at Ctrl-C', async () => {
      const secrets = filesOf(data).filter((path) => path !== join(data, 'address'));
      expect(secrets.map(mode)).toEqual(['600', '600']);
      const before = secrets.map((path) => readFileSync(path, 'utf8'));
      for (const content of before)
        if (content.trim() !== '') expect(outputOf(first)).not.toContain(content.trim());
      await first.end();
      const second = await start({ env, databaseUrl: first.databaseUrl, runner: true });
      const key = readFileSync(join(data, 'admin.key'), 'utf8').trim();
      expect(await whoami(apiOf({ url: second.url, key }))).toMatchObject({ role: 'admin' });
      expect(outputOf(second)).not.toMatch(keyPattern);
      expect(secrets.map((path) => readFileSync(path, 'utf8'))).toEqual(before);
      expect(await keyIdOfLink(second)).toBe(keyIdOf(key));
      const exited = once(second.process, 'exit');
      second.process.kill('SIGINT');
      expect(await exited).toEqual([0, null]);
    });
  });

  test('the first start prints the key once to a terminal; without any provider key it says that every model is rehearsed, and starts without a sandbox', async () => {
    const data = newFolder();
    const database = await emptyDatabase();
    const command = `PATH="${newFolder()}" exec "${process.execPath}" "${program}" serve`;
    const terminal = spawn('script', ['-qfec', command, '/dev/null'], {
      env: {
        ...plain.env,
        ...withoutKey(data),
        DATABASE_URL: database.url,
        MUSTER_PORT: '0',
        MUSTER_RUNNER: 'on',
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    let shown = '';
    terminal.stdout.on('data', (chunk: Buffer) => {
      shown += chunk.toString();
    });
    try {
      await until(
        'the key file and the last line',
        async () => shown,
        (seen) => /key file .*\s/.test(seen) && /rehears/i.test(seen),
      );
      expect(shown).toMatch(withoutSandbox);
      const key = readFileSync(join(data, 'admin.key'), 'utf8').trim();
      expect(shown.match(keyPattern)).toEqual([key]);
      const [, url = ''] = /ready at (http:\S+)/.exec(shown) ?? [];
      const api = apiOf({ url, key });
      const models = ['opus', 'gpt-5'];
      for (const model of models) {
        expectOk(await api.post('/v1/agent/spawn', { agentId: agent(model), description: 'hello', model }));
      }
      for (const model of models) {
        const status = await untilStatus(
          api,
          [model],
          'rest',
          ({ phase }) => phase === 'PHASE_WAITING_FOR_INPUT',
        );
        expect(status).toMatchObject({ model, rehearsed: true });
      }
    } finally {
      const gone = once(terminal, 'exit');
      // Ctrl-C: after a signal to itself, `script` waits for seconds.
      terminal.stdin.write('\x03');
      await gone;
      await database.drop();
    }
  });

  test.each(['ANTHROPIC_API_KEY', 'OPENAI_API_KEY'])(
    'with %s and without a sandbox it does not start, and says what to install or to set, never the key',
    async (variable) => {
      const env = { [variable]: secret, PATH: newFolder() };
      const refused = await refusedStart({ databaseUrl: plain.databaseUrl, runner: true, env });
      expect(refused).toContain('apt-get install bubblewrap');
      expect(refused).toMatch(/MUSTER_SANDBOX=auto .* or MUSTER_SANDBOX=off/);
      expect(refused).not.toMatch(/^ +at /m);
      expect(refused).not.toContain(secret);
    },
  );

  test('with OPENAI_API_KEY only backend B has credentials, and only rehearsal-* models are rehearsed', async () => {
    const env = {
      OPENAI_API_KEY: secret,
      OPENAI_BASE_URL: 'http://127.0.0.1:9',
      MUSTER_SANDBOX: 'auto',
      PATH: newFolder(),
    };
    const server = await start({ runner: true, env });
    await expectCredentials(server, 'B', 'A');
    await said(server, withoutSandbox);
    const api = apiOf(server);
    // No runner here can run a model of backend A: that agent waits, and the next one runs.
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent('b'), description: 'hi', model: 'opus' }));
    expectOk(
      await api.post('/v1/agent/spawn', { agentId: agent('c'), description: 'hi', model: 'rehearsal-a' }),
    );
    const status = await untilStatus(api, ['c'], 'rest', ({ phase }) => phase === 'PHASE_WAITING_FOR_INPUT');
    expect(status.rehearsed).toBe(true);
    expect(await statusOf(api, 'b')).toMatchObject({
      phase: 'PHASE_PENDING',
      rehearsed: false,
      runCount: '0',
    });
  });

  test('with a provider key and no sandbox `muster runner` does not start either', async () => {
    const env = { ANTHROPIC_API_KEY: secret, PATH: newFolder() };
    const args = ['runner', '--url', 'http://127.0.0.1:9', '--key', bootstrapKey(), '--data', newFolder()];
    const child = spawn(process.execPath, [program, ...args], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: 60_000,
    });
    let output = '';
    child.stderr.on('data', (chunk: Buffer) => {
      output += chunk;
    });
    const [code] = await once(child, 'close');
    expect(code).toBe(1);
    expect(output).toContain('apt-get install bubblewrap');
  });
});

test('`muster operator create` on the machine of the service creates a key of an operator', async () => {
  const key = await createOperatorKey(plain, '--account', 'olga');
  expect(await whoami(apiOf({ url: plain.url, key }))).toMatchObject({ account: 'olga', role: 'operator' });
});

describe('variables', () => {
  describe('of one service', () => {
    const key = `mst_chosen.${'s'.repeat(32)}`;
    let server: Server;
    let api: Api;
    beforeAll(async () => {
      server = await startServer({
        runner: true,
        env: {
          ANTHROPIC_API_KEY: secret,
          MUSTER_SANDBOX: 'off',
          PATH: '/nonexistent',
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
      expect(outputOf(server)).not.toContain(key);
    });

    test('the bootstrap key is an admin of the tenant local by default', async () => {
      expect(await whoami(apiOf(plain))).toMatchObject({
        tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'local' },
        ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
        account: 'admin',
        role: 'admin',
      });
    });

    test('MUSTER_BOOTSTRAP_ORG and MUSTER_BOOTSTRAP_ACCOUNT change the names', async () => {
      expect(await whoami(api)).toMatchObject({
        tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'acme' },
        ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
        account: 'ada',
        role: 'admin',
      });
    });

    test('a MUSTER_HOST that other machines can reach gives a warning about TLS and no sign-in link', async () => {
      await said(server, /warn.*TLS/i);
      expect(await linkOf(server)).toBeUndefined();
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

    test('with ANTHROPIC_API_KEY it says that backend A has credentials and B has none', async () => {
      await expectCredentials(server, 'A', 'B');
    });

    test('with MUSTER_SANDBOX=off it starts without a sandbox and says so', async () => {
      await said(server, withoutSandbox);
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

  test('an invalid variable ends the start with one line that names the variable and its value', async () => {
    const outcome = await refusedStart({
      databaseUrl: plain.databaseUrl,
      env: { MUSTER_PUBLIC_URL: 'not a url' },
    });
    const [, ...lines] = outcome.trim().split('\n');
    expect(lines).toEqual([expect.stringContaining('MUSTER_PUBLIC_URL')]);
    expect(lines[0]).toContain('not a url');
  });

  test('a port that is in use ends the start with a line that names it, and no stack trace', async () => {
    const { port } = new URL(plain.url);
    const outcome = await refusedStart({ databaseUrl: plain.databaseUrl, env: { MUSTER_PORT: port } });
    expect(outcome).toMatch(new RegExp(`MUSTER_PORT: port ${port} of 127.0.0.1 is in use`));
    expect(outcome).not.toMatch(/^ +at /m);
    expect((await apiOf(plain).get('/readyz')).status).toBe(200);
  });

  test('/readyz is 200 only when the first key works', () => {
    expect(new Set(firstReplies.map(({ status }) => status))).toEqual(new Set([200]));
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
