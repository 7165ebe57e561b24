import { afterAll, beforeAll, expect, test } from 'vitest';
import { createKey } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { type Server, startServer } from '../support/server.ts';
import { BrowserLike } from './browser-like.ts';
import { chooseAccount, type GitHubFront, startGitHub } from './github-front.ts';
import { clientId } from './identity-provider.ts';
import { callerOf, newTeam, outcomeOf, signInName, type Team } from './team.ts';

let github: GitHubFront;
let server: Server;
let team: Team;

const logins = ['Octo-Cat', 'pending', 'outsider', 'second', 'third', 'fourth', 'taken'];

beforeAll(async () => {
  github = await startGitHub(logins);
  server = await startServer({ runner: false, env: { MUSTER_ALLOW_INNER_HOSTS: github.host } });
  team = await newTeam(server, {
    type: 'github',
    url: github.url,
    clientId,
    clientSecret: { fromSecret: 'client-secret' },
    allow: [{ org: 'Acme' }, { account: 'fourth' }],
    roles: [{ team: 'acme/Platform', role: 'admin' }],
    defaultRole: 'member',
  });
  for (const login of logins) if (login !== 'outsider') github.teams.set(login, ['acme']);
}, 60_000);

afterAll(async () => {
  await server?.close();
  await github?.close();
});

async function signIn(login: string, browser = new BrowserLike()) {
  const { url } = await browser.visit(team.startUrl, (address) => address.startsWith(github.url));
  return outcomeOf(browser, (await browser.visit(await chooseAccount(browser, url, login))).url);
}

test('a member of the organization signs in, and a team gives a role', async () => {
  const { caller } = await signIn('Octo-Cat');
  expect(caller).toMatchObject({
    ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
    account: 'octo-cat',
    role: 'member',
  });
  expect(github.scope).toBe('read:org');
  github.teams.set('Octo-Cat', ['acme', 'acme/platform']);
  expect((await signIn('Octo-Cat')).caller?.role).toBe('admin');
  const [attempt] = await team.attempts();
  expect(attempt).toMatchObject({
    rule: 'allow[0]: org Acme; roles[0]: team acme/Platform → admin',
    claims: { orgs: ['acme'], teams: ['acme/platform'], login: 'Octo-Cat' },
  });
  expect(attempt?.subject).toMatch(/^\d+$/);
  expect(JSON.stringify(attempt)).not.toContain('gho_');
});

test('leaving the team lowers the role and ends the sessions of the higher one', async () => {
  const { browser } = await signIn('Octo-Cat');
  github.teams.set('Octo-Cat', ['acme']);
  expect((await signIn('Octo-Cat')).caller?.role).toBe('member');
  expect(await callerOf(browser, server.url)).toBeNull();
});

test('who is not in the organization, or only invited, is refused with a clear text', async () => {
  expect((await signIn('outsider')).refusal).toContain('none of the groups that may sign in: org Acme');
  github.teams.set('pending', ['acme:pending']);
  expect((await signIn('pending')).refusal).toContain('org Acme');
});

test('a login that changes hands does not hand over the account, its agents or its rules', async () => {
  const owner = await signIn('second');
  expect(owner.caller?.account).toBe('second');
  const agent = { name: 'mine', description: 'x' };
  expect(await owner.browser.post(`${server.url}/v1/agent/spawn`, agent)).toMatchObject({ status: 200 });
  github.renamed.set('second', 'somebody-else').set('third', 'second');
  const renamed = await signIn('second');
  expect(renamed.caller?.account).toBe('second');
  const thief = await signIn('third');
  expect(thief.caller?.account).toBe('second-2');
  const kill = { agentId: { account: 'second', agent: ['mine'] } };
  expect(await thief.browser.post(`${server.url}/v1/agent/kill`, kill)).toMatchObject({ status: 403 });
});

test('a rule with an account is about the person who had the name first', async () => {
  github.teams.set('fourth', []);
  expect((await signIn('fourth')).caller?.account).toBe('fourth');
  github.teams.set('third', []);
  github.renamed.set('third', 'fourth');
  expect((await signIn('third')).refusal).toBeDefined();
});

test('an account with keys is not for a stranger of the same login', async () => {
  await createKey(team.admin, { role: 'admin', account: 'taken' });
  expect((await signIn('taken')).caller).toMatchObject({ account: 'taken-2', role: 'member' });
});

test('the answer is bound to the browser and to this GitHub', async () => {
  const answer = async (browser: BrowserLike) => {
    const { url } = await browser.visit(team.startUrl, (address) => address.startsWith(github.url));
    return new URL(await chooseAccount(browser, url, 'Octo-Cat'));
  };
  const other = await answer(new BrowserLike());
  const visited = await new BrowserLike().visit(other.href);
  expect((await outcomeOf(new BrowserLike(), visited.url)).refusal).toContain('not started in this browser');

  for (const change of [
    (url: URL) => url.searchParams.set('iss', 'https://evil.example'),
    (url: URL) => url.searchParams.append('code', 'second-code'),
    (url: URL) => url.searchParams.delete('code'),
    (url: URL) => url.searchParams.set('error', 'access_denied'),
    // Of another browser, so for another verifier.
    (url: URL) => url.searchParams.set('code', other.searchParams.get('code') ?? ''),
  ]) {
    const browser = new BrowserLike();
    const url = await answer(browser);
    change(url);
    const { url: end } = await browser.visit(url.href);
    expect((await outcomeOf(browser, end)).refusal).toBeDefined();
    expect(await callerOf(browser, server.url)).toBeNull();
  }
});

test('the client is checked', async () => {
  type Checks = { checks: { name: string; ok: boolean; advice: string }[] };
  const { checks } = expectOk(await team.admin.post<Checks>('/v1/sign-in/test', { name: signInName }));
  expect(checks).toMatchObject([{ name: 'client id and client secret', ok: true }, { ok: true }]);
});
