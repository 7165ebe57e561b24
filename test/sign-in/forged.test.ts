import { createHmac } from 'node:crypto';
import { type MutableResponse, type MutableToken, OAuth2Server } from 'oauth2-mock-server';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Server, startServer } from '../support/server.ts';
import { BrowserLike } from './browser-like.ts';
import { newTeam, signIn, type Team } from './team.ts';

/** A provider that signs whatever a test asks it to. */
const idp = new OAuth2Server();
let server: Server;
let team: Team;
let nonce = '';

const issuer = (): string => idp.issuer.url ?? '';

beforeAll(async () => {
  await idp.issuer.keys.generate('RS256');
  await idp.start(0, '127.0.0.1');
  idp.issuer.url = `http://127.0.0.1:${idp.address().port}`;
  server = await startServer({ runner: false, env: { MUSTER_ALLOW_INNER_HOSTS: new URL(issuer()).host } });
  team = await newTeam(server, {
    type: 'oidc',
    issuer: issuer(),
    clientId: 'muster',
    clientSecret: { fromSecret: 'client-secret' },
    allow: [{ group: 'team' }],
    defaultRole: 'member',
  });
}, 60_000);

afterAll(async () => {
  await server?.close();
  await idp.stop();
});

/** The ID token of the next sign-in has these claims too. */
const claim = (change: (claims: Record<string, unknown>) => void): void => {
  idp.service.on('beforeTokenSigning', (token: MutableToken) => change(token.payload));
};

/** Changes the next ID token after it was signed. */
const tamper = (change: (idToken: string) => string): void => {
  idp.service.once('beforeResponse', (response: MutableResponse) => {
    const body = response.body as Record<string, string>;
    body.id_token = change(body.id_token ?? '');
  });
};

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const claimsOf = (token: string): Record<string, unknown> =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());

beforeEach(() => {
  claim((claims) => {
    Object.assign(claims, {
      sub: 'ada-1',
      preferred_username: 'ada',
      groups: ['team'],
      email: 'ada@example.com',
    });
  });
});

afterEach(() => {
  idp.service.removeAllListeners();
});

const refused = async (): Promise<string> => {
  const { caller, refusal } = await signIn(team);
  expect(caller).toBeUndefined();
  expect(refusal).toContain('did not confirm who you are');
  const [attempt] = await team.attempts();
  expect(attempt).toMatchObject({ outcome: 'FAILED', subject: '', account: '' });
  return attempt?.reason ?? '';
};

test('an ID token that is right signs in', async () => {
  expect((await signIn(team)).caller).toMatchObject({ account: 'ada', role: 'member' });
});

test.each<[string, Record<string, unknown>, RegExp]>([
  ['for another client', { aud: 'another-client' }, /aud/],
  [
    'for several clients, that names another one as its party',
    { aud: ['muster', 'other'], azp: 'other' },
    /azp/,
  ],
  ['of another issuer', { iss: 'https://evil.example' }, /iss/],
  ['with another nonce', { nonce: 'guessed' }, /nonce/],
  ['without the nonce', { nonce: undefined }, /nonce/],
  ['that has expired', { exp: Math.floor(Date.now() / 1000) - 600 }, /timestamp/],
  ['without an end', { exp: undefined }, /exp/],
  [
    'from the future',
    { iat: Math.floor(Date.now() / 1000) + 600, nbf: Math.floor(Date.now() / 1000) + 600 },
    /timestamp/,
  ],
  ['without a subject', { sub: undefined }, /sub/],
])('an ID token %s signs nobody in', async (_, forged, reason) => {
  claim((claims) => Object.assign(claims, forged));
  expect(await refused()).toMatch(reason);
});

test('an ID token without a signature signs nobody in', async () => {
  tamper((token) => `${part({ alg: 'none' })}.${part(claimsOf(token))}.`);
  await refused();
  tamper((token) => `${token.split('.').slice(0, 2).join('.')}.`);
  await refused();
});

test('an ID token whose claims were changed after it was signed signs nobody in', async () => {
  tamper((token) => {
    const [header, , signature] = token.split('.');
    return `${header}.${part({ ...claimsOf(token), sub: 'root' })}.${signature}`;
  });
  await refused();
});

test('an ID token that is signed with the public key, or the client secret, as a text signs nobody in', async () => {
  const { keys } = (await (await fetch(`${issuer()}/jwks`)).json()) as { keys: unknown[] };
  for (const secret of [JSON.stringify(keys[0]), 'a-client-secret-of-the-tests']) {
    tamper((token) => {
      const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claimsOf(token))}`;
      return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
    });
    await refused();
  }
});

test('an ID token of an earlier sign-in signs nobody in', async () => {
  let earlier = '';
  tamper((token) => {
    earlier = token;
    return token;
  });
  expect((await signIn(team)).caller).toBeDefined();
  tamper(() => earlier);
  expect(await refused()).toMatch(/nonce/);
});

test('keys that the provider replaces are read again, and those of others are refused', async () => {
  await idp.issuer.keys.generate('RS256');
  expect((await signIn(team)).caller).toBeDefined();
  const other = new OAuth2Server();
  await other.issuer.keys.generate('RS256');
  other.issuer.url = issuer();
  const forged = await other.issuer.buildToken({
    scopesOrTransform: (_, claims) => Object.assign(claims, { sub: 'root', aud: 'muster', nonce }),
  });
  tamper(() => forged);
  await refused();
});

test('what is said of another person at the userinfo endpoint signs nobody in', async () => {
  claim((claims) => {
    claims.groups = undefined;
  });
  const answer = (sub: string) =>
    idp.service.once('beforeUserinfo', (response: MutableResponse) => {
      response.body = { sub, groups: ['team'] };
    });
  answer('root');
  await refused();
  answer('ada-1');
  expect((await signIn(team)).caller?.account).toBe('ada');
});

test('a refusal of the provider is told, without what else it says', async () => {
  idp.service.once('beforeAuthorizeRedirect', ({ url }) => {
    url.searchParams.delete('code');
    url.searchParams.set('error', 'access_denied');
    url.searchParams.set('error_description', '<b>call this number</b>');
  });
  expect(await refused()).toContain('access_denied');
});

test('a token endpoint that fails or sends too much signs nobody in', async () => {
  const answers = [
    { statusCode: 500, body: 'oops' },
    { statusCode: 200, body: { access_token: 'x'.repeat(600_000), token_type: 'Bearer' } },
    { statusCode: 200, body: { access_token: 'x', token_type: 'Bearer' } },
    { statusCode: 200, body: [] },
  ];
  for (const answer of answers) {
    idp.service.once('beforeResponse', (response: MutableResponse) => Object.assign(response, answer));
    await refused();
  }
});

test('the claims that are kept are bounded, and have no tokens', async () => {
  claim((claims) => {
    claims.groups = ['team', ...Array.from({ length: 5_000 }, (_, i) => `group-${i}`)];
    for (let i = 0; i < 500; i += 1) claims[`extra-${i}`] = 'y'.repeat(100);
  });
  expect((await signIn(team)).caller).toBeDefined();
  const [attempt] = await team.attempts();
  const kept = JSON.stringify(attempt?.claims);
  expect(kept.length).toBeLessThan(10_000);
  expect(kept).toContain('team');
  expect(kept).not.toContain(nonce || 'nonce');
});

test('the state and the nonce are new each time, and the answer must have the state', async () => {
  const seen = new Set<string>();
  for (let i = 0; i < 3; i += 1) {
    const { url } = await new BrowserLike().visit(team.startUrl, (address) => address.startsWith(issuer()));
    const parameters = new URL(url).searchParams;
    nonce = parameters.get('nonce') ?? '';
    for (const name of ['state', 'nonce', 'code_challenge']) seen.add(parameters.get(name) ?? '');
    expect(parameters.get('code_challenge_method')).toBe('S256');
  }
  expect(seen.size).toBe(9);
  idp.service.once('beforeAuthorizeRedirect', ({ url }) => url.searchParams.delete('state'));
  expect((await signIn(team)).refusal).toContain('not started in this browser');
});
