import { createHash } from 'node:crypto';
import type { SignInDocument } from '@muster/sdk/contract';
import type { FetchRequest } from '../work/fetch-host.ts';
import { accountName, type Claims, type Person, shownClaims, shownName, textOf } from './person.ts';
import { checked, type Flow, SignInError, type SignInProvider } from './provider.ts';

export interface GitHubOptions {
  readonly document: SignInDocument;
  readonly clientSecret: string;
  readonly fetch: (url: string, request: FetchRequest) => Promise<Response>;
}

const mostPages = 10;
const perPage = 100;

/** GitHub: OAuth with PKCE. It has no ID tokens, so its API is asked who the token belongs to. */
export class GitHubProvider implements SignInProvider {
  readonly ownerProvider = 'PROVIDER_CODEHOST_OAUTH';
  readonly #options: GitHubOptions;
  readonly #web: string;
  readonly #api: string;

  constructor(options: GitHubOptions) {
    this.#options = options;
    const { origin, protocol, hostname, host } = new URL(options.document.url || 'https://github.com');
    const isCloud = hostname === 'github.com' || hostname === 'www.github.com';
    this.#web = isCloud ? 'https://github.com' : origin;
    this.#api = isCloud
      ? 'https://api.github.com'
      : hostname.endsWith('.ghe.com')
        ? `${protocol}//api.${host}`
        : `${origin}/api/v3`;
  }

  async start({ state, verifier }: Flow, redirectUri: string): Promise<URL> {
    const { document } = this.#options;
    const url = new URL(`${this.#web}/login/oauth/authorize`);
    const scopes = new Set([...(this.#needsTeams() ? ['read:org'] : []), ...(document.scopes ?? [])]);
    url.search = new URLSearchParams({
      client_id: document.clientId ?? '',
      redirect_uri: redirectUri,
      scope: [...scopes].join(' '),
      state,
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    }).toString();
    return url;
  }

  async identify(callback: URL, { state, verifier }: Flow) {
    const parameters = callback.searchParams;
    for (const name of ['state', 'code', 'iss', 'error'])
      if (parameters.getAll(name).length > 1) throw new SignInError(`the parameter ${name} was sent twice`);
    if (parameters.get('state') !== state)
      throw new SignInError('the parameter state is not the one that was sent');
    const issuer = parameters.get('iss');
    if (issuer !== null && issuer !== this.#web && issuer !== `${this.#web}/login/oauth`)
      throw new SignInError(`the answer is from ${shownName(issuer)}, not from ${this.#web}`);
    const error = parameters.get('error');
    if (error !== null) throw new SignInError(`GitHub refused: ${shownName(error)}`);
    const code = parameters.get('code');
    if (!code) throw new SignInError('the parameter code is missing');
    const token = await this.#token(code, `${callback.origin}${callback.pathname}`, verifier);
    return { issuer: this.#web, person: await this.#person(token) };
  }

  #needsTeams(): boolean {
    const { allow = [], roles = [] } = this.#options.document;
    return [...allow, ...roles].some(({ org, team }) => org || team);
  }

  async #token(code: string, redirectUri: string, verifier: string): Promise<string> {
    const {
      access_token: token,
      error,
      error_description: description,
    } = await this.#exchange(code, redirectUri, verifier);
    if (typeof token === 'string' && token) return token;
    throw new SignInError(
      `GitHub refused the code: ${shownName(textOf(description) || textOf(error) || 'no token')}`,
    );
  }

  async #exchange(code: string, redirectUri: string, verifier: string): Promise<Claims> {
    const { document, clientSecret, fetch } = this.#options;
    const body = new URLSearchParams({
      client_id: document.clientId ?? '',
      client_secret: clientSecret,
      code,
      redirect_uri: redirectUri,
      code_verifier: verifier,
    }).toString();
    const reply = await fetch(`${this.#web}/login/oauth/access_token`, {
      method: 'POST',
      headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' },
      body,
    });
    return objectIn(await jsonOf(reply, 'the token'));
  }

  async #person(token: string): Promise<Person> {
    const user = objectIn(await this.#get('/user', token));
    const { id, login, name } = user;
    if (typeof id !== 'number' || !Number.isSafeInteger(id))
      throw new SignInError('GitHub did not say who it is');
    const needsTeams = this.#needsTeams();
    const memberships = needsTeams ? await this.#list('/user/memberships/orgs?state=active', token) : [];
    const orgs = memberships
      .filter(({ state }) => state === 'active')
      .map(({ organization }) => textOf(objectIn(organization).login).toLowerCase())
      .filter(Boolean);
    const teams = needsTeams
      ? (await this.#list('/user/teams', token)).map(({ slug, organization }) =>
          `${textOf(objectIn(organization).login)}/${textOf(slug)}`.toLowerCase(),
        )
      : [];
    const subject = String(id);
    return {
      ...{ subject, orgs, teams },
      displayName: shownName(textOf(name) || textOf(login)),
      name: accountName([textOf(login)], subject),
      ...{ emails: [], domains: [], groups: [], note: '' },
      claims: shownClaims({ orgs, teams, login, name, id }, 'orgs'),
    };
  }

  async #get(path: string, token: string): Promise<unknown> {
    const reply = await this.#options.fetch(`${this.#api}${path}`, {
      headers: {
        accept: 'application/vnd.github+json',
        authorization: `Bearer ${token}`,
        'x-github-api-version': '2022-11-28',
      },
    });
    return jsonOf(reply, path.replace(/\?.*/, ''));
  }

  async #list(path: string, token: string): Promise<Claims[]> {
    const found: Claims[] = [];
    for (let page = 1; page <= mostPages; page += 1) {
      const separator = path.includes('?') ? '&' : '?';
      const items = await this.#get(`${path}${separator}per_page=${perPage}&page=${page}`, token);
      if (!Array.isArray(items)) throw new SignInError(`GitHub sent no list for ${path}`);
      found.push(...items.slice(0, perPage).map(objectIn));
      if (items.length < perPage) break;
    }
    return found;
  }

  async check(redirectUri: string) {
    const client = await checked('client id and client secret', async () => {
      const { error, error_description: description } = await this.#exchange(
        'muster-tries-this',
        redirectUri,
        'x'.repeat(43),
      );
      if (error === 'bad_verification_code') return '';
      throw new SignInError(`GitHub says: ${shownName(textOf(description) || textOf(error) || 'nothing')}`);
    });
    const advice = `GitHub does not say; it has to know ${redirectUri}, or an address above it`;
    return [client, { name: 'redirect URI', ok: true, advice }];
  }
}

const objectIn = (value: unknown): Claims =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Claims) : {};

async function jsonOf(reply: Response, what: string): Promise<unknown> {
  const text = await reply.text();
  if (!reply.ok) throw new SignInError(`GitHub answered ${reply.status} for ${what}`);
  try {
    return JSON.parse(text);
  } catch {
    throw new SignInError(`GitHub sent no JSON for ${what}`);
  }
}
