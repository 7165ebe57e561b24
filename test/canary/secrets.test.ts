import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AgentId, TimelineEntry } from '@muster/sdk/contract';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type Api, agent, apiOf, untilStatus } from '../support/api.ts';
import {
  createKey,
  createShareLink,
  decode,
  postResource,
  secretOfLink,
  uniqueName,
} from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { filesBelow } from '../support/files.ts';
import { databaseDump } from '../support/find-secrets.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { bootstrapKey, type Server, startServer } from '../support/server.ts';
import { codeOf, signInWithCode } from '../support/sign-in.ts';
import { createOperatorKey, newTenant } from '../support/tenants.ts';
import { TestTenant } from '../support/test-tenant.ts';

/**
 * Secrets are sent through every route that accepts or returns one. Then the database, the log, the files and all replies
 * are searched for them: a secret may only be in the one reply that returned it.
 */
const serviceSecret = `canary-service-${randomBytes(24).toString('hex')}`;
/** Variables of the server's own environment that no agent may see. */
const serverVariables = {
  FAKE_PROVIDER_API_KEY: `canary-provider-${randomBytes(24).toString('hex')}`,
  AWS_SECRET_ACCESS_KEY: `canary-cloud-${randomBytes(24).toString('hex')}`,
};

let server: Server;
let admin: Api;
let data: string;
/** Secrets by their description. */
const secrets = new Map<string, string>();
/** Every reply except those that return a new secret. */
const replies: string[] = [];
const agents: { api: Api; id: AgentId }[] = [];

const record = <T>(answer: Answer<T>): Answer<T> => {
  replies.push(JSON.stringify([answer.status, [...answer.headers], answer.body]));
  for (const [, payload] of JSON.stringify(answer.body).matchAll(/"payload":"([^"]*)"/g)) {
    replies.push(Buffer.from(payload ?? '', 'base64').toString());
  }
  return answer;
};

beforeAll(async () => {
  data = mkdtempSync(join(tmpdir(), 'muster-canary-'));
  const env = {
    MUSTER_DATA: data,
    MUSTER_LOG: 'info',
    MUSTER_SECRET: serviceSecret,
    MUSTER_BOOTSTRAP_KEY: bootstrapKey(),
    ...serverVariables,
  };
  server = await startServer({ env });
  admin = apiOf(server);
  secrets.set('the service secret', serviceSecret);
  secrets.set('the bootstrap key', server.key);
  for (const [name, value] of Object.entries(serverVariables)) secrets.set(name, value);
  const operator = admin.as(await createOperatorKey(server));
  secrets.set("the operator's key", operator.key);
  await makeKeys(operator);
  await makeValues();
  await signInBrowsers();
  await runAgents();
  await makeErrors();
  await readEverything();
}, 120_000);
afterAll(async () => {
  await server?.close();
  rmSync(data, { recursive: true, force: true });
});

async function makeKeys(operator: Api): Promise<void> {
  for (const role of ['viewer', 'member', 'admin', 'runner']) {
    const { key, api, name } = await createKey(admin, { role });
    secrets.set(`the key of a ${role}`, key);
    record(await api.get('/v1/whoami'));
    record(await admin.get(`/v1/catalog/token/${name}`));
    record(await admin.get(`/v1/catalog/token/${name}/history`));
  }
  const { admin: chief } = await newTenant(operator);
  secrets.set("the key of another tenant's admin", chief.key);
  agents.push({ api: chief, id: await spawned(chief, 'away', '!say hello') });

  for (const [kind, field] of [
    ['token', 'key'],
    ['share-link', 'url'],
    ['integration', 'signingKey'],
  ] as const) {
    const name = uniqueName('canary');
    const secretOf = (answer: Answer<{ payload: string }>): string => {
      const value = String(decode(expectOk(answer).payload)[field]);
      return field === 'url' ? secretOfLink(value) : value;
    };
    const created = await postResource(admin, kind, name, { note: 'first' });
    secrets.set(`the ${field} of a ${kind}`, secretOf(created));
    const rotated = await postResource(admin, kind, name, { note: 'second', rotate: true });
    secrets.set(`the rotated ${field} of a ${kind}`, secretOf(rotated));
    // A client may write back the document with the secret.
    const given = decode(rotated.body.payload);
    record(await postResource(admin, kind, name, given));
    record(await postResource(admin, kind, name, given, { updateMask: `${field},note` }));
    record(await postResource(admin, kind, name, { [field]: 1 }));
    record(await admin.get(`/v1/catalog/${kind}/${name}`));
    record(await admin.get(`/v1/catalog/${kind}/${name}/history`));
    record(await admin.del(`/v1/catalog/${kind}/${name}?justification=done`));
    record(await admin.get(`/v1/catalog/${kind}/${name}/history`));
  }
}

/** The value of a secret is in no reply at all, and the agents below get it in their environment. */
async function makeValues(): Promise<void> {
  for (const [name, value] of [
    ['deploy', `canary-value-${randomBytes(24).toString('hex')}`],
    ['replaced', `canary-replaced-${randomBytes(24).toString('hex')}`],
  ] as const) {
    secrets.set(`the value of ${name}`, value);
    record(await postResource(admin, 'secret', name, { value, note: 'first' }));
    record(await postResource(admin, 'secret', name, { value, note: 'second' }, { updateMask: 'value' }));
    record(await postResource(admin, 'secret', name, { value: [value] }));
    record(await postResource(admin, 'secret', name, { value: value.repeat(2000) }));
    record(await postResource(admin, 'secret', name, { value }, { updateMask: 'value.inner' }));
    record(await postResource(admin, 'secret', name, { value }, { ifGenerationMatch: '99' }));
    record(await postResource(admin, 'secret', name, { note: 'third' }));
    for (const path of ['', `/${name}`, `/${name}/history`])
      record(await admin.get(`/v1/catalog/secret${path}`));
  }
  record(await postResource(admin, 'secret', 'replaced', { value: 'another value' }));
  record(await admin.del('/v1/catalog/secret/replaced'));
  const variables = { DEPLOY_TOKEN: { fromSecret: 'deploy' } };
  expectOk(record(await postResource(admin, 'environment', 'default', { variables })));
}

/** Codes that are used, refused, misused and never used. */
async function signInBrowsers(): Promise<void> {
  const { key, api, name } = await createKey(admin, { role: 'member' });
  secrets.set('the key behind codes', key);
  const coded = async (what: string): Promise<string> => {
    const code = await codeOf(api);
    secrets.set(what, code);
    return code;
  };
  await coded('a code that nobody uses');
  const used = await coded('a code that was used');
  expectOk(await signInWithCode(server.url, used));
  record(await signInWithCode(server.url, used));
  const refused = await coded('a code from another page');
  record(await signInWithCode(server.url, refused, { origin: 'http://attacker.example' }));
  record(await signInWithCode(server.url, refused, { host: 'attacker.example' }));
  const misused = await coded('a code in a wrong place');
  record(await signInWithCode(server.url, [misused]));
  record(await signInWithCode(server.url, misused.repeat(10)));
  record(await sendRaw(server.url, { method: 'GET', path: `/v1/sign-in?code=${misused}` }));
  record(await admin.post(`/v1/sign-in/code?code=${misused}`));
  record(await admin.as(misused).get('/v1/whoami'));
  record(await admin.post('/v1/agent/spawn', { description: 'x', model: key }));
  const orphan = await coded('a code of a revoked key');
  expectOk(await admin.del(`/v1/catalog/token/${name}`));
  record(await signInWithCode(server.url, orphan));
}

async function spawned(api: Api, name: string, description: string, more = {}): Promise<AgentId> {
  const body = { agentId: agent(name), description, model: 'rehearsal-a', ...more };
  return expectOk(record(await api.post<{ agentId: AgentId }>('/v1/agent/spawn', body))).agentId;
}

async function runAgents(): Promise<void> {
  const idle = (name: string) =>
    untilStatus(admin, [name], `${name} idle`, ({ phase }) => phase === 'PHASE_WAITING_FOR_INPUT');
  // An agent that prints its environment and the arguments of its processes.
  const commands = [
    '!run env',
    '!run cat /proc/self/environ /proc/self/cmdline',
    '!run ls -a . ..',
    '!say done',
  ];
  agents.push({ api: admin, id: await spawned(admin, 'curious', commands.join('\n')) });
  agents.push({ api: admin, id: await spawned(admin, 'parent', '!spawn child !run env\n!say done') });
  agents.push({ api: admin, id: await spawned(admin, 'failing', '!fail on purpose') });
  await idle('curious');
  await idle('parent');
  await untilStatus(admin, ['failing'], 'failed', ({ phase }) => phase === 'PHASE_FAILED');

  // Only a runner knows the token of a run, so the test acts as one.
  expectOk(await postResource(admin, 'pool', 'played', {}));
  expectOk(await postResource(admin, 'workspace', 'played', { pool: 'played' }));
  const runner = await createKey(admin, { role: 'runner', pool: 'played' });
  secrets.set("the test runner's key", runner.key);
  const t = new TestTenant(admin, 'played', new FakeRunner(runner.api));
  await t.spawn('held');
  const claim = await t.start('held');
  secrets.set('the token of a run', claim.token);
  const self = admin.as(claim.token);
  record(await self.get('/v1/whoami'));
  record(await self.post('/v1/agent/tasks/create', { agentId: claim.agentId, tasks: [{ subject: 'x' }] }));
  record(await self.post('/v1/agent/kill', { agentId: claim.agentId }));
  for (const [name, fields] of [
    ['my_status', {}],
    ['create_tasks', { tasks: [{ subject: 'y' }] }],
    ['complete_task', { id: claim.token }],
    ['child_status', { child: claim.token }],
    [claim.token, {}],
  ] as const) {
    const params = { name, arguments: fields };
    record(await self.post('/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params }));
  }
  await t.end(claim);
  record(await self.get('/v1/whoami'));
  agents.push({ api: admin, id: claim.agentId });

  const link = await createShareLink(admin, claim.agentId);
  secrets.set('the secret of a share link', secretOfLink(link.url));
  record(await link.api.get('/v1/whoami'));
  record(await link.api.post('/v1/agent/status', { agentId: claim.agentId }));
  record(await link.api.post('/v1/agent/kill', { agentId: claim.agentId }));
}

/** Each key in wrong places, and almost right in the right place. */
async function makeErrors(): Promise<void> {
  for (const key of [...secrets.values()].filter((secret) => secret.startsWith('mst_'))) {
    for (const header of [`Bearer ${key}x`, `Bearer ${key.slice(0, -1)}`, `bearer${key}`, key]) {
      const headers = { authorization: header };
      record(await sendRaw(server.url, { method: 'GET', path: '/v1/whoami', headers }));
    }
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    for (const body of ['{', '[]', '{"agentId":7}']) {
      record(await sendRaw(server.url, { path: '/v1/agent/status', headers, body }));
    }
    record(await sendRaw(server.url, { path: '/v1/nothing', headers, body: '{}' }));
    // Errors never contain a key, wherever it was put by mistake.
    record(await admin.get(`/v1/whoami?key=${encodeURIComponent(key)}`));
    record(await admin.post('/v1/agent/spawn', { description: 'x', model: key }));
    record(await admin.post('/v1/agents', { pageToken: key }));
    record(await admin.post('/v1/agents', { tenant: { provider: key } }));
  }
}

async function readEverything(): Promise<void> {
  for (const kind of [
    'token',
    'share-link',
    'integration',
    'secret',
    'workspace',
    'pool',
    'environment',
    'persona',
  ]) {
    record(await admin.get(`/v1/catalog/${kind}?pageSize=1000`));
  }
  record(await admin.post('/v1/agents', { account: '*', includeTerminal: true }));
  for (const { api, id } of agents) {
    for (const route of ['status', 'runs', 'tasks', 'diff']) {
      record(await api.post(`/v1/agent/${route}`, { agentId: id }));
    }
  }
  const pages = ['/healthz', '/readyz', '/metrics', '/openapi.json'];
  for (const path of pages) replies.push((await sendRaw(server.url, { method: 'GET', path })).text);
}

/** A secret, its secret half, and both in the encodings that a database or a log might use. */
function spellings(secret: string): string[] {
  const half = secret.startsWith('mst_') ? secret.slice(secret.indexOf('.') + 1) : secret;
  return [secret, half].flatMap((text) => {
    const bytes = Buffer.from(text);
    return [
      text,
      bytes.toString('hex'),
      bytes.toString('base64').replace(/=+$/, ''),
      bytes.toString('base64url'),
    ];
  });
}

/** The spellings of all secrets, computed when the first text is searched: by then no secret is added. */
let allSpellings: [what: string, spellings: string[]][] | undefined;

function leaksIn(text: string): string[] {
  allSpellings ??= [...secrets].map(([what, secret]) => [what, [...new Set(spellings(secret))]]);
  return allSpellings.filter(([, some]) => some.some((one) => text.includes(one))).map(([what]) => what);
}

describe('a secret is in no', () => {
  test('table of the database', async () => {
    const dump = await databaseDump(server.databaseUrl);
    expect(dump.length).toBeGreaterThan(5);
    expect(dump.flatMap(({ rows }) => rows).length).toBeGreaterThan(50);
    const leaks = dump.flatMap(({ table, rows }) =>
      leaksIn(rows.join('\n')).map((what) => `${table}: ${what}`),
    );
    expect(leaks).toEqual([]);
  });

  test('statement in pg_stat_activity', async () => {
    const database = new pg.Client({ connectionString: server.databaseUrl });
    await database.connect();
    try {
      const { rows } = await database.query<{ query: string }>('SELECT query FROM pg_stat_activity');
      expect(leaksIn(rows.map(({ query }) => query).join('\n'))).toEqual([]);
    } finally {
      await database.end();
    }
  });

  test('line of the log', () => {
    const log = server.output.join('');
    expect(log.length).toBeGreaterThan(100);
    expect(leaksIn(log)).toEqual([]);
  });

  test('timeline', async () => {
    for (const { api, id } of agents) {
      const { entries } = expectOk(
        await api.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', { agentId: id, limit: 1000 }),
      );
      expect(entries.length).toBeGreaterThan(0);
      expect(leaksIn(JSON.stringify(entries)), id.agent.join('/')).toEqual([]);
    }
  });

  test('timeline of an agent that printed its environment', async () => {
    const { entries } = expectOk(
      await admin.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', {
        agentId: agent('curious'),
        limit: 1000,
      }),
    );
    const transcript = JSON.stringify(entries);
    expect(transcript).toContain('PATH=');
    expect(transcript).toContain('DEPLOY_TOKEN=***');
    for (const name of [
      ...Object.keys(serverVariables),
      'MUSTER_SECRET',
      'MUSTER_BOOTSTRAP_KEY',
      'DATABASE_URL',
    ]) {
      expect(transcript).not.toContain(`${name}=`);
    }
  });

  test('error, catalog read, history or other reply', () => {
    expect(replies.length).toBeGreaterThan(100);
    const leaks = replies.flatMap((reply) => leaksIn(reply).map((what) => `${what}: ${reply.slice(0, 300)}`));
    expect(leaks).toEqual([]);
  });

  test('hash or nonce of it in any reply', () => {
    const text = replies.join('\n');
    for (const [what, secret] of secrets) {
      const half = secret.slice(secret.indexOf('.') + 1);
      for (const value of [secret, half]) {
        const digest = createHash('sha256').update(value).digest();
        for (const encoding of ['hex', 'base64', 'base64url'] as const) {
          expect(text.includes(digest.toString(encoding).replace(/=+$/, '')), what).toBe(false);
        }
      }
    }
    expect(text).not.toMatch(/"nonce"/i);
  });

  test('argument of a process', async () => {
    expectOk(await admin.post('/v1/agent/spawn', { agentId: agent('busy'), description: '!run sleep 300' }));
    await untilStatus(admin, ['busy'], 'busy', ({ phase }) => phase === 'PHASE_RUNNING');
    const pids = descendantsOf(server.process.pid ?? 0);
    expect(pids.length).toBeGreaterThan(0);
    const leaks = pids.flatMap((pid) => leaksIn(argumentsOf(pid)).map((what) => `${pid}: ${what}`));
    expect(leaks).toEqual([]);
  });

  test('file of the data folder that others can read', async () => {
    // A service at work renames and removes files between their listing and their reading.
    server.process.kill('SIGSTOP');
    await expect.poll(() => readFileSync(`/proc/${server.process.pid}/stat`, 'utf8')).toMatch(/\) T /);
    const leaks = filesBelow(data).flatMap((path) => {
      const found = leaksIn(readFileSync(path, 'latin1'));
      const isPrivate = (statSync(path).mode & 0o077) === 0;
      return isPrivate && found.every((what) => what === 'the bootstrap key')
        ? []
        : found.map((w) => `${path}: ${w}`);
    });
    server.process.kill('SIGCONT');
    expect(leaks).toEqual([]);
  });
});

function argumentsOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

/** The process and all its descendants. */
function descendantsOf(root: number): number[] {
  const parents = new Map<number, number>();
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, 'utf8');
      parents.set(Number(entry), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
    } catch {
      // It has exited meanwhile.
    }
  }
  const found = [root];
  for (const pid of found) {
    for (const [child, parent] of parents) if (parent === pid) found.push(child);
  }
  return found;
}
