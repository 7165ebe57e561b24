import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { AgentStatus, Claim, ReplyOf } from '@muster/sdk/contract';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Agents } from '../support/agents.ts';
import { type Api, apiOf } from '../support/api.ts';
import { createKey, postResource, uniqueName, writeResource } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { filesBelow, processText, readUnlessGone } from '../support/files.ts';
import { makeGitRemote } from '../support/git-remote.ts';
import { sandbox } from '../support/sandbox.ts';
import { type Server, startServer } from '../support/server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { TestTenant } from '../support/test-tenant.ts';
import { appPermissions, FakeGithub } from './github.ts';

/** The runner has no git configuration: what it reaches, it reaches with the credential of an integration. */
let host: FakeGithub;
let reader: FakeGithub;
let server: Server;
let api: Api;
let operator: Api;

beforeAll(async () => {
  host = await FakeGithub.start();
  reader = await FakeGithub.start({ permissions: { ...appPermissions, contents: 'read' } });
  const hosts = [host, reader].map(({ url }) => new URL(url).host);
  server = await startServer({ env: { MUSTER_ALLOW_INNER_HOSTS: hosts.join(), MUSTER_LOG: 'debug' } });
  api = apiOf(server);
  operator = await operatorOf(server);
  await addApp(api, 'hub', host);
  await addApp(api, 'read-only', reader);
}, 120_000);
afterAll(async () => {
  await server?.close();
  await host?.stop();
  await reader?.stop();
});

async function addApp(admin: Api, name: string, { url, app }: FakeGithub): Promise<void> {
  await writeResource(admin, 'secret', `${name}-key`, { value: app.privateKey });
  const credential = { appId: app.appId, privateKey: { fromSecret: `${name}-key` } };
  await writeResource(admin, 'integration', name, { type: 'github', url, ...credential, repos: ['team/*'] });
}

async function agentsIn(admin: Api, ...repos: string[]): Promise<Agents> {
  const workspace = uniqueName('place');
  await writeResource(admin, 'workspace', workspace, { repos });
  return new Agents(admin, workspace);
}

/** Spawns an agent and waits until its turn is over. */
async function ran(agents: Agents, description: string): Promise<AgentStatus> {
  await agents.spawn('a', { description });
  return agents.wait('a');
}

const timelineOf = async (agents: Agents): Promise<string> =>
  JSON.stringify(expectOk(await agents.send('agent/timeline', 'a', { limit: 1000 })));

const push = (file: string) => `!write ${file} text\n!push Add ${file}`;

describe('a repository that an integration covers', () => {
  it.each([
    ['by its URL', () => host.gitUrl],
    ['by the URL without .git', () => host.gitUrl.replace(/\.git$/, '')],
    ['over ssh', () => `git@127.0.0.1:${host.repo}.git`],
  ])('named %s is cloned and pushed, with a token for it alone', async (_, url) => {
    const before = host.remote.refs();
    const agents = await agentsIn(api, url());
    const status = await ran(agents, `!run cat README.md\n${push('new.txt')}`);
    expect(status.error).toBeNull();
    expect(await timelineOf(agents)).toContain('# project');
    const branch = host.remote.refs().find((ref) => !before.includes(ref));
    expect(host.remote.git('show', `${branch}:new.txt`)).toBe('text');
    const used = host.server.gitPasswords.filter(({ password }) => password !== '');
    expect(used.length).toBeGreaterThan(0);
    for (const { password } of used) expect(host.server.installationTokens).toContain(password);
  });

  it('is reached for another tenant with its own integration only', async () => {
    const { admin } = await newTenant(operator);
    const without = await ran(await agentsIn(admin, host.gitUrl), '!say done');
    expect(without.error?.message).toContain('an address of an internal network');
    await addApp(admin, 'own', host);
    const agents = await agentsIn(admin, host.gitUrl);
    expect((await ran(agents, '!run cat README.md')).error).toBeNull();
    expect(await timelineOf(agents)).toContain('# project');
  });
});

describe('its submodule', () => {
  it('is fetched with the credential of the same integration', async () => {
    const team = dirname(host.remote.url);
    const [outer, inner] = [uniqueName('outer'), uniqueName('inner')];
    const commit = makeGitRemote(team, inner).commit('main', { 'inner.txt': 'of the submodule\n' });
    const modules = `[submodule "in"]\n\tpath = in\n\turl = ../${inner}.git\n`;
    makeGitRemote(team, outer).commit('main', { '.gitmodules': modules }, 'main', { in: commit });
    const { admin } = await newTenant(operator);
    await writeResource(admin, 'secret', 'token', { value: host.token });
    const token = { fromSecret: 'token' };
    await writeResource(admin, 'integration', 'hub', { type: 'github', url: host.url, token });
    const agents = await agentsIn(admin, `${host.url}/team/${outer}.git`);
    const before = host.server.gitPasswords.length;
    expect((await ran(agents, '!run cat in/inner.txt; git config --list; env')).error).toBeNull();
    const timeline = await timelineOf(agents);
    expect(timeline).toContain('of the submodule');
    expect(timeline).not.toContain('WARNING');
    expect(timeline).not.toContain(host.token);
    const accepted = host.server.gitPasswords.slice(before).filter(({ access }) => access !== 'none');
    expect(new Set(accepted.map(({ password }) => password))).toEqual(new Set([host.token]));
  });
});

describe('the credential', () => {
  it('is in no process list, file, log, table or timeline, and nothing of it in the sandbox', async () => {
    const processes = new Set<string>();
    host.server.onGit = () => {
      for (const text of commandLines()) processes.add(text);
    };
    const agents = await agentsIn(api, host.gitUrl);
    const look = sandbox ? '/proc/*/environ /proc/*/cmdline' : '/proc/self/environ';
    const seen = `while kill -0 $! 2>/dev/null; do cat ${look} 2>/dev/null | tr '\\\\0' '\\\\n'; done | sort -u`;
    const description = `!run git fetch & ${seen}\n!run git config --list; cat .git/config\n${push('canary.txt')}`;
    expect((await ran(agents, description)).error).toBeNull();
    host.server.onGit = () => {};
    const tokens = host.server.installationTokens;
    expect(tokens.length).toBeGreaterThan(0);
    const isFound = (text: string) =>
      tokens.some((token) => text.includes(token) || text.includes(basic(token)));
    expect([...processes].join('\n')).toMatch(/git-remote-http/);
    expect([...processes].filter(isFound)).toEqual([]);
    const timeline = await timelineOf(agents);
    expect(timeline).toContain('insteadof');
    expect(isFound(timeline)).toBe(false);
    expect(isFound(server.output.join(''))).toBe(false);
    expect(filesBelow(server.env.MUSTER_DATA ?? '').filter((path) => isFound(readUnlessGone(path)))).toEqual(
      [],
    );
    expect(isFound(await databaseText())).toBe(false);
  });

  it('is renewed before it expires', async () => {
    host.server.tokenLifeMs = 10 * 60_000;
    const agents = await agentsIn(api, host.gitUrl);
    host.server.revokeTokens();
    expect((await ran(agents, '!say ready')).error).toBeNull();
    host.server.revokeTokens();
    const before = host.server.gitPasswords.length;
    await agents.queue('a', push('later.txt'));
    expect((await agents.wait('a')).error).toBeNull();
    const since = host.server.gitPasswords.slice(before);
    expect(since.map(({ access }) => access)).toContain('write');
    expect(since.map(({ access }) => access)).not.toContain('none');
    host.server.tokenLifeMs = undefined;
  });

  it('is asked for again when the host has revoked it', async () => {
    const agents = await agentsIn(api, host.gitUrl);
    expect((await ran(agents, '!say ready')).error).toBeNull();
    host.server.revokeTokens();
    const before = host.server.gitPasswords.length;
    await agents.queue('a', push('revoked.txt'));
    expect((await agents.wait('a')).error).toBeNull();
    const since = host.server.gitPasswords.slice(before).map(({ access }) => access);
    expect(since).toContain('none');
    expect(since).toContain('write');
  });
});

describe('an agent is blocked, and told what to fix,', () => {
  it('if the token is not accepted', async () => {
    const { admin } = await newTenant(operator);
    await writeResource(admin, 'secret', 'token', { value: 'ghp_revoked_token' });
    const token = { fromSecret: 'token' };
    await writeResource(admin, 'integration', 'hub', { type: 'github', url: host.url, token });
    const { phaseReason, error } = await ran(await agentsIn(admin, host.gitUrl), '!say done');
    expect(phaseReason).toBe('BLOCKED');
    expect(error?.code).toBe('WORKSPACE_NOT_PREPARED');
    expect(error?.message).toMatch(
      /Authentication failed.*integration "hub": token: GitHub refused the token/,
    );
    expect(error?.message).not.toContain('ghp_revoked_token');
  });

  it('if the secret does not exist', async () => {
    const { admin } = await newTenant(operator);
    const token = { fromSecret: 'absent' };
    await writeResource(admin, 'integration', 'hub', { type: 'github', url: host.url, token });
    const { phaseReason, error } = await ran(await agentsIn(admin, host.gitUrl), '!say done');
    expect(phaseReason).toBe('BLOCKED');
    expect(error?.message).toContain('the integration "hub": token: secret "absent" not found');
  });

  it('if the App is not installed on the repository', async () => {
    const url = `${host.url}/team/absent.git`;
    const { phaseReason, error } = await ran(await agentsIn(api, url), '!say done');
    expect(phaseReason).toBe('BLOCKED');
    expect(error?.message).toMatch(/the integration "hub": .*404 Not Found; installation: Install the App/);
  });

  it('and its push says that the permission contents: write is missing', async () => {
    const agents = await agentsIn(api, reader.gitUrl);
    const description = '!run git commit --quiet --allow-empty -m x; git push 2>&1 || true';
    expect((await ran(agents, description)).error).toBeNull();
    const timeline = await timelineOf(agents);
    expect(timeline).toMatch(/could not be pushed to: .*integration .*read-only.*: contents: write: Set/);
  });
});

describe('a runner gets a credential only for a repository of a run that it holds', () => {
  type Asked = ReplyOf<'runnerGitCredential'>;
  let tenant: TestTenant;
  let claim: Claim;
  let key: Api;

  beforeAll(async () => {
    const workspace = uniqueName('held');
    await writeResource(api, 'pool', workspace, {});
    await writeResource(api, 'workspace', workspace, {
      pool: workspace,
      repos: [host.gitUrl, '/srv/other.git'],
    });
    key = (await createKey(api, { role: 'runner', pool: workspace })).api;
    tenant = new TestTenant(api, workspace, new FakeRunner(key));
    await tenant.spawn('a');
    claim = await tenant.start('a');
  });

  const ask = (by: Api, repo: string, more: Record<string, unknown> = {}) => {
    const { agentKey, runId } = claim;
    const { runnerId } = tenant.runner;
    return by.post<Asked>('/v1/runner/git-credential', { runnerId, agentKey, runId, repo, ...more });
  };

  it('with the URL at the host', async () => {
    const { credential } = expectOk(await ask(key, host.gitUrl));
    expect(credential).toMatchObject({
      integration: 'hub',
      url: host.gitUrl,
      username: 'x-access-token',
      missing: [],
    });
    expect(host.server.installationTokens).toContain(credential?.password);
    expect(Date.parse(credential?.expiresAt ?? '')).toBeGreaterThan(Date.now());
  });

  it('another one if the last was refused', async () => {
    const before = expectOk(await ask(key, host.gitUrl)).credential?.password;
    expect(expectOk(await ask(key, host.gitUrl)).credential?.password).toBe(before);
    expect(expectOk(await ask(key, host.gitUrl, { refused: true })).credential?.password).not.toBe(before);
  });

  it('and none for others', async () => {
    const others = ['https://git.example/team/project.git', '/srv/other.git', 'not a url', 'http://%', ''];
    for (const repo of others) expect(expectOk(await ask(key, repo))).toEqual({ credential: null });
    const unlisted = `${host.url}/team/secret.git`;
    const { message } = expectError(await ask(key, unlisted), 'FAILED_PRECONDITION');
    expect(message).toContain('is not a repository of the workspace');
    const listed = { submoduleOf: host.gitUrl };
    const ofListed = expectError(await ask(key, unlisted, listed), 'FAILED_PRECONDITION');
    expect(ofListed.message).toContain('Install the App');
    const ofOther = expectError(await ask(key, unlisted, { submoduleOf: unlisted }), 'FAILED_PRECONDITION');
    expect(ofOther.message).toBe(message);
    expect(expectOk(await ask(key, reader.gitUrl, listed))).toEqual({ credential: null });
    for (const path of ['team%2Fproject', 'team//project', 'team/../team/project'])
      expect((await ask(key, `${host.url}/${path}.git`)).body).not.toHaveProperty('credential.password');
  });

  it('also for one that the workspace got later', async () => {
    const repos = [host, reader].map(({ type, gitUrl }, index) => ({
      url: gitUrl,
      path: `${type}-${index}`,
    }));
    expectError(await ask(key, reader.gitUrl), 'FAILED_PRECONDITION');
    expectOk(await postResource(api, 'workspace', tenant.workspace, { pool: tenant.workspace, repos }));
    expect(expectOk(await ask(key, reader.gitUrl)).credential?.integration).toBe('read-only');
  });

  it('not with another key, for another run, and when the run is over', async () => {
    const { admin: foreign } = await newTenant(operator);
    const foreignKey = (await createKey(foreign, { role: 'runner', pool: 'default' })).api;
    const sameHost = (await createKey(api, { role: 'runner', pool: tenant.workspace })).api;
    for (const other of [foreignKey, sameHost, api])
      expectError(await ask(other, host.gitUrl), 'PERMISSION_DENIED');
    const rival = new FakeRunner(foreignKey);
    expectOk(await rival.poll());
    const { runnerId } = rival;
    expectError(await ask(foreignKey, host.gitUrl, { runnerId }), 'ABORTED');
    expectError(await ask(key, host.gitUrl, { runId: claim.runId + 1 }), 'ABORTED');
    await tenant.end(claim);
    expectError(await ask(key, host.gitUrl), 'ABORTED');
  });
});

/** The command lines of all processes. */
function commandLines(): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => processText(pid, 'cmdline').replaceAll('\0', ' '));
}

const basic = (token: string): string => Buffer.from(`x-access-token:${token}`).toString('base64');

async function databaseText(): Promise<string> {
  const client = new pg.Client({ connectionString: server.databaseUrl });
  await client.connect();
  const { rows } = await client.query<{ text: string }>(
    'SELECT database_to_xml(true, false, $1)::text AS text',
    [''],
  );
  await client.end();
  return rows[0]?.text ?? '';
}
