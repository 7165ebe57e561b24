import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { createEmulator } from 'emulate';
import type { BrowserLike } from './browser-like.ts';
import { clientId, clientSecret } from './identity-provider.ts';

/**
 * emulate's GitHub at the addresses of an Enterprise Server, with what emulate does not have: PKCE, the memberships and
 * teams of a person, and names that change.
 */
export interface GitHubFront {
  readonly url: string;
  readonly host: string;
  /** Other logins than those that emulate knows. */
  readonly renamed: Map<string, string>;
  /** Of a person by the login that emulate knows: `acme`, `acme/platform`; a state of a membership after a colon. */
  readonly teams: Map<string, readonly string[]>;
  /** The scopes of the last authorization. */
  scope: string;
  close(): Promise<void>;
}

export async function startGitHub(logins: readonly string[]): Promise<GitHubFront> {
  const emulator = await createEmulator({
    service: 'github',
    port: 0,
    seed: {
      github: {
        users: logins.map((login) => ({ login, name: `Name of ${login}`, email: `${login}@example.com` })),
        oauth_apps: [
          {
            client_id: clientId,
            client_secret: clientSecret,
            name: 'Muster',
            redirect_uris: ['http://127.0.0.1/'],
          },
        ],
      },
    },
  });
  const inner = emulator.url.replace('localhost', '127.0.0.1');
  /** The challenges of PKCE, by state and then by code. */
  const challenges = new Map<string | null, string>();
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? '/', 'http://front');
    const body = request.method === 'POST' ? await text(request) : '';
    if (url.pathname === '/login/oauth/authorize') {
      challenges.set(url.searchParams.get('state'), url.searchParams.get('code_challenge') ?? '');
      front.scope = url.searchParams.get('scope') ?? '';
      return void response.end('Choose an account.');
    }
    const headers = Object.fromEntries(
      Object.entries(request.headers).filter(
        ([name]) => !['host', 'connection', 'content-length'].includes(name),
      ),
    ) as Record<string, string>;
    const ask = async (path: string) => {
      const reply = await fetch(`${inner}${path}`, {
        method: request.method ?? 'GET',
        headers: { ...headers, connection: 'close' },
        redirect: 'manual',
        ...(body && { body }),
      });
      return { reply, content: await reply.text() };
    };
    const send = (status: number, content: unknown) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(content));
    };
    const fields = new URLSearchParams(body);
    const challenge = challenges.get(fields.get('code'));
    const proof = createHash('sha256')
      .update(fields.get('code_verifier') ?? '')
      .digest('base64url');
    if (url.pathname === '/login/oauth/access_token' && challenge !== undefined && challenge !== proof)
      return send(200, { error: 'bad_verification_code' });
    const { reply, content } = await ask(`${url.pathname.replace(/^\/api\/v3/, '')}${url.search}`);
    if (!url.pathname.startsWith('/api/v3/user')) {
      const location = reply.headers.get('location');
      const code = location && new URL(location).searchParams.get('code');
      if (code) challenges.set(code, challenges.get(fields.get('state')) ?? '');
      const type = reply.headers.get('content-type') ?? 'text/html';
      return void response
        .writeHead(reply.status, { 'content-type': type, ...(location && { location }) })
        .end(content);
    }
    const user = JSON.parse((await ask('/user')).content) as { login: string };
    const teams = front.teams.get(user.login) ?? [];
    if (url.pathname.endsWith('/memberships/orgs'))
      return send(
        200,
        teams
          .filter((name) => !name.includes('/'))
          .map((name) => name.split(':'))
          .map(([login, state = 'active']) => ({ state, organization: { login } })),
      );
    if (url.pathname.endsWith('/teams'))
      return send(
        200,
        teams
          .filter((name) => name.includes('/'))
          .map((name) => name.split('/'))
          .map(([login, slug]) => ({ slug, organization: { login } })),
      );
    return send(reply.status, { ...user, login: front.renamed.get(user.login) ?? user.login });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const front: GitHubFront = {
    ...{ host, url: `http://${host}`, renamed: new Map(), teams: new Map(), scope: '' },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await emulator.close();
    },
  };
  return front;
}

/** What a person does at GitHub: chooses the account on the page. Returns where GitHub sends the browser. */
export async function chooseAccount(
  browser: BrowserLike,
  authorizeUrl: string,
  login: string,
): Promise<string> {
  const { origin, searchParams } = new URL(authorizeUrl);
  await (await browser.fetch(authorizeUrl)).text();
  const fields = ['redirect_uri', 'scope', 'state', 'client_id'].map((name) => [
    name,
    searchParams.get(name) ?? '',
  ]);
  const reply = await browser.fetch(`${origin}/login/oauth/callback`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams([['login', login], ...(fields as [string, string][])]).toString(),
  });
  return reply.headers.get('location') ?? '';
}
