import { createServer, type Server as HttpServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { type Server, startServer } from '../support/server.ts';
import { BrowserLike } from './browser-like.ts';
import { clientId, type IdentityProvider, startIdentityProvider } from './identity-provider.ts';
import { callerOf, newTeam, outcomeOf, signIn, type Team } from './team.ts';

/** Sends each request to the node that the test wants. */
let target = '';
let proxy: HttpServer;
let publicUrl = '';
let idp: IdentityProvider;
let nodes: Server[] = [];
let team: Team;

const forward = (
  incoming: IncomingMessage,
  outgoing: Parameters<Parameters<typeof createServer>[1] & {}>[1],
) => {
  const { hostname, port } = new URL(target);
  const { method, url, headers } = incoming;
  const sent = request({ hostname, port, method, path: url, headers }, (reply) => {
    outgoing.writeHead(reply.statusCode ?? 502, reply.headers);
    reply.pipe(outgoing);
  });
  incoming.pipe(sent);
};

beforeAll(async () => {
  proxy = createServer(forward);
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  publicUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  idp = await startIdentityProvider();
  const env = { MUSTER_ALLOW_INNER_HOSTS: idp.host, MUSTER_PUBLIC_URL: publicUrl };
  const first = await startServer({ runner: false, env });
  const second = await startServer({ runner: false, env, databaseUrl: first.databaseUrl });
  nodes = [first, second];
  const document = {
    ...{ type: 'oidc', issuer: idp.issuer, clientId, clientSecret: { fromSecret: 'client-secret' } },
    allow: [{ group: 'team' }],
    roles: [{ group: 'admins', role: 'admin' }],
    defaultRole: 'member',
  };
  team = await newTeam(first, document, publicUrl);
  idp.redirectUris.push(team.callbackUrl);
  idp.person = { sub: 'ada-1', preferred_username: 'ada', groups: ['team', 'admins'] };
}, 90_000);

afterAll(async () => {
  for (const node of [...nodes].reverse()) await node.close();
  proxy?.close();
  await idp?.close();
});

const [one, two] = [() => nodes[0]?.url ?? '', () => nodes[1]?.url ?? ''];

test('a sign-in that one node started is completed by the other, and works on both', async () => {
  const browser = new BrowserLike();
  target = one();
  const { url } = await browser.visit(team.startUrl, (address) => address.includes('/sign-in/callback/'));
  target = two();
  const { url: end } = await browser.visit(url);
  expect((await outcomeOf(browser, end)).caller).toMatchObject({ account: 'ada', role: 'admin' });
  target = one();
  expect(await callerOf(browser, publicUrl)).toMatchObject({ account: 'ada', role: 'admin' });
});

test('an answer that one node has taken is not taken again by the other', async () => {
  const browser = new BrowserLike();
  target = one();
  const { url } = await browser.visit(team.startUrl, (address) => address.includes('/sign-in/callback/'));
  const cookies = new Map(browser.cookies(publicUrl));
  await browser.visit(url);
  target = two();
  const thief = new BrowserLike();
  for (const [name, value] of cookies) thief.cookies(publicUrl).set(name, value);
  expect((await outcomeOf(thief, (await thief.visit(url)).url)).refusal).toContain('completed before');
});

test('a role that falls ends the higher sessions on the other node within 5 seconds', async () => {
  target = one();
  const { browser } = await signIn(team);
  target = two();
  expect(await callerOf(browser, publicUrl)).toMatchObject({ role: 'admin' });
  idp.person = { sub: 'ada-1', preferred_username: 'ada', groups: ['team'] };
  target = one();
  expect((await signIn(team)).caller?.role).toBe('member');
  target = two();
  const sinceMs = Date.now();
  await until(
    'the end of the session',
    () => callerOf(browser, publicUrl),
    (caller) => caller === null,
  );
  expect(Date.now() - sinceMs).toBeLessThan(5_000);
});
