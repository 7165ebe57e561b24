import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Service, SignedIn } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { diskFinding } from '../../packages/service/src/cli/machine-findings.ts';
import { version } from '../../packages/service/src/lib/version.ts';
import { apiOf } from '../support/api.ts';
import { eventually } from '../support/async.ts';
import { createKey } from '../support/catalog.ts';
import { makeCertificate } from '../support/database-servers.ts';
import { expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { program } from '../support/server.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { signInWithCode } from '../support/sign-in.ts';
import { resultOf, TestUser } from './cli.ts';

const server = await useSharedServer();
const ada = new TestUser(server);
const newcomer = new TestUser();
let nowhere: string;

beforeAll(async () => {
  const closed = await listening(() => {});
  nowhere = closed.url;
  closed.close();
});
afterAll(() => {
  ada.remove();
  newcomer.remove();
});

async function listening(listener: RequestListener): Promise<{ url: string; close: () => void }> {
  const other = createServer(listener);
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  const { port } = other.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => other.close() };
}

describe('connection', () => {
  test('a service with its data folder here or in a folder above is found', async () => {
    const bob = new TestUser();
    const folder = join(bob.home, 'src', 'deep');
    mkdirSync(folder, { recursive: true });
    const data = join(bob.home, '.muster');
    mkdirSync(data);
    writeFileSync(join(data, 'address'), server.url);
    writeFileSync(join(data, 'admin.key'), server.key);
    expect(await bob.muster(['whoami'], { folder })).toEqual({
      code: 0,
      out: `admin (admin) of codehost_app/${server.tenant.org}\n`,
      err: `at ${server.url}, from the service of this folder; the service has version ${version}\n`,
    });
    expect(await newcomer.muster(['whoami'], { env: { MUSTER_DATA: data } })).toMatchObject({ code: 0 });
    bob.remove();
  });

  test('--url overrides MUSTER_URL', async () => {
    expect(await ada.muster(['whoami'])).toMatchObject({
      err: `at ${server.url}, from MUSTER_URL; the service has version ${version}\n`,
    });
    const env = { MUSTER_URL: nowhere };
    const flagged = await ada.muster(['whoami', '--url', `${server.url}/`], { env });
    expect(flagged).toMatchObject({
      code: 0,
      err: `at ${server.url}, from --url; the service has version ${version}\n`,
    });
  });

  test('a missing service, key or URL scheme is reported in one line', async () => {
    expect(await newcomer.muster(['ps'])).toEqual({
      code: 6,
      out: '',
      err: 'muster: no service found: start one with muster serve, or set MUSTER_URL and MUSTER_API_KEY\n',
    });
    const { code, err } = await newcomer.muster(['ps', '--url', server.url]);
    expect({ code, err }).toEqual({
      code: 4,
      err: `muster: no API key for ${server.url}: set MUSTER_API_KEY, or run muster login --url ${server.url}\n`,
    });
    const env = { MUSTER_API_KEY: 'x' };
    expect(await newcomer.muster(['ps', '--url', 'localhost'], { env })).toMatchObject({
      code: 2,
      err: 'muster: --url: "localhost" is not a URL; expected one that starts with http:// or https://\n',
    });
    expect(await ada.muster(['ps'], { env: { MUSTER_API_KEY: 'mst_no.body' } })).toMatchObject({
      code: 4,
      err: expect.stringMatching(/; set MUSTER_API_KEY, or run muster login\n$/),
    });
  });

  test('an unreachable service is reported in one line', async () => {
    const commands = [
      ['ps'],
      ['wait', 'x'],
      ['logs', '-f', 'x'],
      ['spawn', 'x', '--follow'],
      ['ps', '--watch'],
    ];
    const env = { MUSTER_URL: nowhere };
    for (const args of commands) {
      const { code, out, err } = await ada.muster(args, { env });
      expect({ code, out }).toEqual({ code: 6, out: '' });
      expect(err).toMatch(/^muster: can't reach \S+ \(ECONNREFUSED\): is the service running\? .*\n$/);
    }
  });

  test('a server that is not Muster is reported', async () => {
    const { url, close } = await listening((_, response) => response.end('<html>'));
    const { code, err } = await ada.muster(['ps'], { env: { MUSTER_URL: url } });
    close();
    expect({ code, err }).toEqual({
      code: 1,
      err: `muster: ${url} answered with content type "", expected json: is it the URL of a Muster service?\n`,
    });
  });

  test('fields that an older service ignores are reported', async () => {
    const { url, close } = await listening((_, response) => {
      response.setHeader('content-type', 'application/json');
      response.setHeader('muster-ignored-fields', 'tasks');
      response.end('{"followUpId":"1"}');
    });
    const env = { MUSTER_URL: url };
    const { code, out, err } = await ada.muster(['send', 'x', 'Hi.', '--task', 'y'], { env });
    close();
    expect({ code, out }).toEqual({ code: 0, out: '1\n' });
    expect(err).toBe(
      'muster: the service ignored unknown fields: tasks. It may be older than this command.\n',
    );
  });

  test('a warning of the service is printed', async () => {
    const args = ['spawn', '!say hello', '--workspace', 'nowhere', '--name', 'in-nowhere'];
    const { code, err } = await ada.muster(args);
    expect(code).toBe(0);
    expect(err).toContain('muster: The workspace "nowhere" has no resource in the catalog');
  });
});

describe('login', () => {
  test('stores a URL and a valid key in a file that only its owner can read', async () => {
    const bob = new TestUser();
    const wrong = await bob.muster(['login', '--url', server.url, '--key-stdin'], { input: 'mst_no.body' });
    expect(wrong.code).toBe(4);
    const args = ['login', '--url', server.url, '--key-stdin'];
    expect(await bob.prints(args, { input: `${server.key}\n` })).toBe(`admin (admin) at ${server.url}\n`);
    const file = join(bob.home, '.config', 'muster', 'login.json');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(await bob.muster(['whoami'])).toMatchObject({
      err: `at ${server.url}, from muster login; the service has version ${version}\n`,
    });
    expect(await bob.muster(['whoami', '--url', server.url])).toMatchObject({ code: 0 });
    writeFileSync(file, 'torn');
    expect(await bob.muster(['ps'])).toMatchObject({
      code: 1,
      err: expect.stringContaining('is not valid JSON'),
    });
    await bob.prints(['login', '--forget']);
    expect(await bob.muster(['whoami'])).toMatchObject({ code: 6 });
    expect(await bob.muster(['login', '--key', '--url', server.url])).toMatchObject({
      code: 2,
      err: "muster: can't ask for input: standard input is not a terminal; use --key-stdin to read the API key from standard input\n",
    });
    bob.remove();
  });
});

describe('mistakes', () => {
  test('are reported on standard error, in one line', async () => {
    expect(await ada.runProcess(['swapn'])).toEqual({
      code: 2,
      out: '',
      err: "muster: unknown command 'swapn' (Did you mean spawn?)\n",
    });
  });

  test.each([
    [['ps', '--wach'], "unknown option '--wach' (Did you mean --watch?)"],
    [['status'], "missing required argument 'agent'; see muster status --help"],
    [['token', 'create'], "missing required argument 'name'; see muster token create --help"],
    [['status', 'a', 'b'], /too many arguments.*; see muster status --help/],
    [['ps', '-o', 'xml'], /Allowed choices are table, json, yaml; see muster ps --help/],
  ])('%s', async (args, problem) => {
    const { code, err } = await ada.muster(args);
    expect(code).toBe(2);
    expect(err.trim().split('\n')).toHaveLength(1);
    expect(err).toMatch(typeof problem === 'string' ? `muster: ${problem}\n` : problem);
  });

  test('an unknown agent is reported with the command that lists agents', async () => {
    expect(await ada.muster(['status', 'nobody'])).toEqual({
      code: 3,
      out: '',
      err: "muster: the agent nobody does not exist; muster ps --all lists all your agents, with --account '*' those of all accounts\n",
    });
    await ada.agents.spawn('taken');
    expect(await ada.muster(['spawn', 'x', '--name', 'taken'])).toMatchObject({ code: 5 });
    expect(await ada.muster(['spawn', 'x', '--name', 'two words'])).toMatchObject({ code: 2 });
  });
});

describe('pipes', () => {
  test('a closed pipe is not an error', async () => {
    const run = `"${process.execPath}" "${program}" help | head -1; echo "\${PIPESTATUS[0]}"`;
    const { out, err } = await resultOf(spawn('bash', ['-c', run], { env: ada.env }));
    expect({ out, err }).toEqual({ out: 'Usage: muster [options] [command]\n0\n', err: '' });
  });

  test('without a terminal there are no colours, unless FORCE_COLOR is set', async () => {
    await ada.spawnAndWait('green', '!finish');
    expect(await ada.prints(['ps', '-a'])).not.toContain('\u001b');
    expect(await ada.prints(['ps', '-a'], { env: { FORCE_COLOR: '1' } })).toContain('\u001b[32mfinished');
    const env = { FORCE_COLOR: '1', NO_COLOR: '1' };
    expect(await ada.prints(['ps', '-a'], { env })).not.toContain('\u001b');
  });
});

test('config shows the configuration, and no secret', async () => {
  const tenantAllow = { 'codehost_app/acme': { fromRunner: ['TOKEN'], repos: [], mcpServers: [] } };
  const env = {
    MUSTER_TENANT_ALLOW: JSON.stringify(tenantAllow),
    DATABASE_URL: 'postgres://me:hush@db/muster',
    MUSTER_SECRET: 'hush'.repeat(10),
    ANTHROPIC_API_KEY: 'hush',
  };
  const { out: text } = await ada.runProcess(['config'], { env });
  for (const secret of ['hush', server.key]) expect(text).not.toContain(secret);
  expect(text).toContain(server.url);
  expect(text).toMatch(/^ {2}port +8420 {2}\(MUSTER_PORT\)$[\s\S]*^ {2}stallMs +300000 {2}\(MUSTER_STALL_/m);
  expect(text).not.toMatch(/^\w+\n(\w|$)/m);
  const data = await ada.data(['config'], { env });
  expect(data).toMatchObject({ client: { source: 'MUSTER_URL' }, runner: { tenantAllow } });
  const withoutRunner = await newcomer.prints(['config'], { env: { MUSTER_RUNNER: 'off' } });
  expect(withoutRunner).toMatch(/no service found[\s\S]*^runner\n {2}runner +off {2}\(MUSTER_RUNNER\)\n\w/m);
  expect(await ada.muster(['config'], { env: { CLAUDE_CODE_USE_BEDROCK: '1' } })).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^muster: .*AWS_REGION.*\n$/),
  });
  expect(await ada.muster(['config'], { env: { MUSTER_PORT: 'x' } })).toMatchObject({
    code: 1,
    err: expect.stringContaining('MUSTER_PORT: expected a number'),
  });
});

test.each([
  [
    'MUSTER_DATA',
    { MUSTER_DATA: '/dev/null' },
    ['serve'],
    /MUSTER_DATA: can't use the data folder \/dev\/null: /,
  ],
  [
    'MUSTER_DATA',
    { MUSTER_DATA: '/proc/muster/data' },
    ['serve'],
    /MUSTER_DATA: can't use the data folder \/proc\/muster\/data: /,
  ],
  ['--workers', {}, ['serve', '--workers', '0'], /--workers: expected a number from 1 to 8; got "0"/],
  [
    'DATABASE_URL',
    { DATABASE_URL: 'postgres://u:hush@127.0.0.1:1/x', MUSTER_DATABASE_WAIT_SECONDS: '0' },
    ['serve'],
    /DATABASE_URL: can't connect to the database "x" at 127.0.0.1: .*ECONNREFUSED/,
  ],
  [
    'MUSTER_URL',
    { MUSTER_URL: 'nonsense', MUSTER_API_KEY: 'x' },
    ['runner'],
    /MUSTER_URL: "nonsense" is not a URL/,
  ],
])('a start that fails by %s names the variable, without a stack trace', async (_, env, args, problem) => {
  const folder = mkdtempSync(join(newcomer.home, 'start-'));
  const started = await newcomer.runProcess(args, { env: { MUSTER_LOG: 'silent', ...env }, folder });
  expect(started.code).toBeGreaterThan(0);
  expect(started.err).toMatch(problem);
  expect(started.err.trimEnd().split('\n')).toHaveLength(1);
  expect(started.err).not.toContain('hush');
});

test('with -o json errors are data, too', async () => {
  const data = async (args: string[]) => JSON.parse((await ada.muster(args)).err) as object;
  expect(await data(['status', 'nobody', '-o', 'json'])).toMatchObject({
    error: { exitCode: 3, status: 'NOT_FOUND', httpStatus: 404, message: expect.stringContaining('nobody') },
  });
  expect(await data(['--output=json', 'spawn', 'x', '--bad'])).toMatchObject({
    error: { exitCode: 2, message: expect.stringContaining('--bad') },
  });
  expect(await data(['get', '-o', 'yaml'])).toMatchObject({ error: { exitCode: 2 } });
});

test('doctor reports what is installed and what to do', async () => {
  const { out: text, code: newcomers } = await newcomer.muster(['doctor']);
  expect(newcomers).toBe(1);
  expect(text).toMatch(/^ok +Node +\d/m);
  expect(text).toMatch(/^(ok|missing) +user limits +\d+ inotify instances for all agents of this user$/m);
  expect(text).toMatch(
    /^(ok +git-lfs +installed|missing +git-lfs +not installed\n +→ install git-lfs: .*)$/m,
  );
  expect(text).toMatch(/^(ok|broken) +disk +[\d.]+ GB of [\d.]+ GB free at \//m);
  expect(text).toMatch(/^missing +service .*\n +→ start a service here with muster serve$/m);
  expect(text).toMatch(
    /^missing +Codex .*no key in this environment\n +→ set OPENAI_API_KEY or another account$/m,
  );
  const env = { CLAUDE_CODE_USE_BEDROCK: '1', AWS_REGION: 'eu-west-1', MUSTER_MODELS: '/nonexistent.json' };
  const { out, code } = await newcomer.muster(['doctor'], { env });
  expect(out).toContain('Amazon Bedrock (AWS credentials, eu-west-1) in this environment');
  expect(out).toMatch(/^broken +models +MUSTER_MODELS: must be a JSON file such as/m);
  expect(code).toBe(1);
  const { MUSTER_MODELS: _, ...bedrock } = env;
  const { out: withoutModels } = await newcomer.muster(['doctor'], { env: bedrock });
  expect(withoutModels).toMatch(/^broken +models +MUSTER_MODELS is missing: with CLAUDE_CODE_USE_BEDROCK/m);
});

test('doctor reports the backends of the running service, not of its own environment', async () => {
  const api = apiOf(server);
  await eventually(async () =>
    expect((await api.get<Service>('/v1/service')).body.runners).toMatchObject([{ rehearses: true }]),
  );
  const { api: ofRunner } = await createKey(api, { role: 'runner', pool: 'default' });
  const codex = new FakeRunner(ofRunner, 'codex-1', undefined, {
    backends: ['BACKEND_B'],
    rehearses: false,
  });
  expectOk(await codex.poll({ free: { real: 0, rehearsed: 0 } }));
  const newer = new FakeRunner(ofRunner, 'newer-1');
  expectOk(await newer.poll({ free: { real: 0, rehearsed: 0 }, build: '99.0.0' }));
  const env = { ANTHROPIC_API_KEY: 'hush', MUSTER_SANDBOX: 'off' };
  const { out: text } = await ada.muster(['doctor'], { env });
  expect(text).toMatch(/^ok +service +http:.* as admin \(admin\)$/m);
  expect(text).toMatch(/^missing +Claude Code +the service has no provider key: rehearsal only/m);
  expect(text).toMatch(/^ok +Codex +ready at the service$/m);
  expect(text).toMatch(/^ok +runner +codex-1 \S+ in pool default: Codex, sandbox$/m);
  expect(text).toMatch(/^ok +quota +storage: the tenant uses \d+ MiB of 102400 MiB, your account \d+ MiB/m);
  expect(text).toMatch(
    /^missing +runner +newer-1 99.0.0 in pool .*\n +→ The runner has the newer version 99.0.0; /m,
  );
  expect(text).not.toContain('hush');
  await newer.poll({ leaving: true });
  await codex.poll({ leaving: true });
  const noCodex = expect.objectContaining({ what: 'Codex', verdict: 'missing' });
  expect(JSON.parse((await ada.muster(['doctor', '-o', 'json'])).out)).toContainEqual(noCodex);
});

test('doctor reports a disk that is nearly full, also of a data folder that does not exist yet', async () => {
  const disk = (free: number, all: number) => async (folder: string) => {
    if (folder !== '/data') throw new Error('ENOENT');
    return { freeBytes: free * 1e9, totalBytes: all * 1e9 };
  };
  expect(await diskFinding('/data/a/b', {}, disk(10, 100))).toMatchObject({
    verdict: 'ok',
    found: '10 GB of 100 GB free at /data',
  });
  for (const [free, all] of [
    [4, 100],
    [1, 10],
  ] as const)
    expect(await diskFinding('/data', {}, disk(free, all))).toMatchObject({
      verdict: 'broken',
      next: expect.stringContaining('MUSTER_DATA'),
    });
});

test('doctor reports a certificate near its end', async () => {
  const folder = mkdtempSync(join(ada.home, 'tls-'));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  makeCertificate(key, cert);
  const https = createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }).listen(0, 'localhost');
  await once(https, 'listening');
  try {
    const env = { MUSTER_URL: `https://localhost:${(https.address() as AddressInfo).port}` };
    const { out, code } = await ada.muster(['doctor'], { env });
    expect(code).toBe(1);
    expect(out).toMatch(
      /^missing +certificate +ends \d{4}-\d\d-\d\d \d\d:\d\d, in [12] days?\n +→ renew the certificate of localhost:/m,
    );
  } finally {
    https.close();
  }
});

test('doctor fails when a provider key is set and there is no sandbox', async () => {
  const env = { OPENAI_API_KEY: 'hush', PATH: '/nowhere' };
  const { code, out } = await newcomer.muster(['doctor'], { env });
  expect(code).toBe(1);
  expect(out).toMatch(
    /^broken +sandbox .*bubblewrap is not installed: apt-get install bubblewrap.*\n +→ fix what the line above says/m,
  );
  const off = await newcomer.muster(['doctor'], { env: { ...env, MUSTER_SANDBOX: 'off' } });
  expect(off.out).toMatch(/^missing +sandbox .*MUSTER_SANDBOX is off/m);
});

describe('open', () => {
  const signsIn = async (url: string): Promise<string> => {
    const [, code = ''] = url.trimEnd().split('#code=');
    return (expectOk(await signInWithCode(server.url, code)) as SignedIn).caller.keyId;
  };

  test('prints a URL that signs you in', async () => {
    const keyId = server.key.slice('mst_'.length).split('.')[0];
    const front = await ada.prints(['open']);
    expect(front.split('#')[0]).toBe(`${server.url}/`);
    expect(await signsIn(front)).toBe(keyId);
    await ada.agents.spawn('paged');
    const page = await ada.prints(['open', 'paged']);
    expect(page).toMatch(/\/agents\/.*\/paged#code=[\w-]+\n$/);
    expect(await signsIn(page)).toBe(keyId);
    const { url } = await ada.data<{ url: string }>(['open']);
    expect(await signsIn(url)).toBe(keyId);
  });

  test('prints a URL without a code when the service gives none', async () => {
    const { key } = await createKey(apiOf(server), { role: 'runner' });
    expect(await ada.prints(['open'], { env: { MUSTER_API_KEY: key } })).toBe(`${server.url}/\n`);
    const older = await listening((_request, response) => {
      const body = { code: 5, message: 'there is nothing at /v1/sign-in/code', details: [] };
      response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
    try {
      expect(await ada.prints(['open'], { env: { MUSTER_URL: older.url } })).toBe(`${older.url}/\n`);
    } finally {
      older.close();
    }
  });

  test('reports a key that does not work', async () => {
    const env = { MUSTER_API_KEY: 'mst_nobody.0123456789abcdef0123456789abcdef' };
    expect(await ada.muster(['open'], { env })).toMatchObject({ code: 4, out: '' });
  });
});

test('help lists every command and the exit codes', async () => {
  const text = await newcomer.prints(['--help']);
  for (const name of [
    ...['spawn', 'ps', 'status', 'logs', 'send', 'queue', 'tasks', 'stop', 'kill', 'wait', 'apply', 'get'],
    ...['retry', 'reopen'],
    ...['edit', 'delete', 'history', 'token', 'serve', 'runner', 'export', 'import', 'login', 'whoami'],
    ...['open', 'mcp', 'config', 'doctor', 'completion'],
  ])
    expect(text).toMatch(new RegExp(`^  ${name} `, 'm'));
  expect(text).toMatch(/^ +12 {2}After a wait: the agent needs input \(it asked a question\)\.$/m);
  expect(await newcomer.prints(['--version'])).toBe(
    `${JSON.parse(readFileSync(new URL('../../packages/service/package.json', import.meta.url), 'utf8')).version}\n`,
  );
});
