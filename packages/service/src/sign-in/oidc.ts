import type { SignInDocument } from '@muster/sdk/contract';
import type { Configuration, CustomFetch, ServerMetadata } from 'openid-client';
import { accountName, type Claims, type Person, shownClaims, shownName, textOf } from './person.ts';
import { checked, type Flow, SignInError, type SignInProvider } from './provider.ts';

export interface OidcOptions {
  readonly document: SignInDocument;
  /** Undefined for a client without one. */
  readonly clientSecret: string | undefined;
  readonly fetch: CustomFetch;
  /** Kept between sign-ins: what the provider says of itself. */
  readonly metadata: () => Promise<ServerMetadata>;
}

/** Loaded with the first sign-in. */
export const openidClient = () => import('openid-client');

const toleranceSeconds = 30;
const usualScopes = ['openid', 'profile', 'email'];

/** An address of this machine: for a provider that is being tried out. */
export const isLoopback = (address: string): boolean =>
  URL.canParse(address) && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(new URL(address).hostname);

/** What a provider says of itself, at its well-known address. */
export async function discover(document: SignInDocument, fetch: CustomFetch): Promise<ServerMetadata> {
  const { issuer = '', clientId = '' } = document;
  if (!issuer) throw new SignInError('issuer: is not set; set it in the document');
  const client = await openidClient();
  const found = await client.discovery(new URL(issuer), clientId || 'muster', undefined, client.None(), {
    [client.customFetch]: fetch,
    execute: isInsecure(issuer) ? [client.allowInsecureRequests] : [],
  });
  return found.serverMetadata();
}

const isInsecure = (issuer: string): boolean => issuer.startsWith('http:');

/** OpenID Connect: authorization code with PKCE, state and nonce; the ID token is verified with the provider's keys. */
export class OidcProvider implements SignInProvider {
  readonly ownerProvider = 'PROVIDER_IDP_OIDC';
  readonly #options: OidcOptions;

  constructor(options: OidcOptions) {
    this.#options = options;
  }

  async start({ state, nonce, verifier }: Flow, redirectUri: string): Promise<URL> {
    const client = await openidClient();
    const { scopes = [] } = this.#options.document;
    return client.buildAuthorizationUrl(await this.#configuration(), {
      redirect_uri: redirectUri,
      scope: [...new Set([...usualScopes, ...scopes])].join(' '),
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      ...{ state, nonce },
    });
  }

  async identify(callback: URL, { state, nonce, verifier }: Flow) {
    const client = await openidClient();
    const configuration = await this.#configuration();
    const tokens = await client.authorizationCodeGrant(configuration, callback, {
      expectedState: state,
      expectedNonce: nonce,
      pkceCodeVerifier: verifier,
      idTokenExpected: true,
    });
    const claims = tokens.claims();
    if (!claims) throw new SignInError('the provider sent no ID token');
    const { userinfo_endpoint: hasInfo } = configuration.serverMetadata();
    const more =
      hasInfo && this.#needsMore(claims)
        ? await client.fetchUserInfo(configuration, tokens.access_token, claims.sub)
        : {};
    // The ID token is signed, so it takes precedence.
    return {
      issuer: claims.iss,
      person: personOf({ ...more, ...claims }, claims.iss, this.#options.document),
    };
  }

  #needsMore(claims: Claims): boolean {
    const { allow = [], roles = [], groupsClaim = 'groups' } = this.#options.document;
    const needsGroups = [...allow, ...roles].some(({ group }) => group);
    return (needsGroups && claimAt(claims, groupsClaim) === undefined) || claims.email === undefined;
  }

  async check(redirectUri: string) {
    const configured = await checked('configuration of the provider', async () => {
      const { issuer, code_challenge_methods_supported: methods } = await this.#options.metadata();
      if (methods && !methods.includes('S256'))
        throw new SignInError('the provider does not support PKCE with S256');
      return issuer;
    });
    if (!configured.ok) return [configured];
    return [
      configured,
      await checked('client id and client secret', () => this.#checkClient(redirectUri)),
      await this.#checkRedirect(redirectUri),
    ];
  }

  /** A wrong code is refused as such only if the client is the right one. */
  async #checkClient(redirectUri: string): Promise<string> {
    const client = await openidClient();
    try {
      await client.genericGrantRequest(await this.#configuration(), 'authorization_code', {
        code: 'a-code-that-muster-tries',
        redirect_uri: redirectUri,
        code_verifier: client.randomPKCECodeVerifier(),
      });
    } catch (error) {
      if ((error as { error?: unknown }).error === 'invalid_grant') return '';
      throw error;
    }
    throw new SignInError('the provider accepted a code that it never gave');
  }

  /** Without a person, a provider that knows the address sends the browser back to it with an error. */
  async #checkRedirect(redirectUri: string) {
    const name = 'redirect URI';
    const { fetch } = this.#options;
    const client = await openidClient();
    const address = await this.start(
      { state: client.randomState(), nonce: client.randomNonce(), verifier: client.randomPKCECodeVerifier() },
      redirectUri,
    );
    address.searchParams.set('prompt', 'none');
    try {
      const { headers, status } = await fetch(address.href, {
        ...{ method: 'GET', headers: { accept: 'text/html' }, body: undefined, redirect: 'manual' },
      });
      const target = headers.get('location') ?? '';
      if (target.startsWith(`${redirectUri}?`)) return { name, ok: true, advice: '' };
      if (status === 400)
        return { name, ok: false, advice: `the provider does not know ${redirectUri}: add it there` };
    } catch {
      // Said of the configuration already.
    }
    return { name, ok: true, advice: `the provider does not say; it has to know ${redirectUri}` };
  }

  /** The keys of the provider are read for each sign-in, so that it may replace them at any time. */
  async #configuration(): Promise<Configuration> {
    const { document, clientSecret, fetch, metadata } = this.#options;
    const client = await openidClient();
    const server = await metadata();
    const { token_endpoint_auth_methods_supported: methods } = server;
    const isBasic =
      (document.clientAuthentication ??
        (methods?.includes('client_secret_basic') === false ? 'post' : 'basic')) === 'basic';
    const authentication =
      clientSecret === undefined
        ? client.None()
        : isBasic
          ? client.ClientSecretBasic(clientSecret)
          : client.ClientSecretPost(clientSecret);
    const configuration = new client.Configuration(
      server,
      document.clientId ?? '',
      { [client.clockTolerance]: toleranceSeconds },
      authentication,
    );
    configuration[client.customFetch] = fetch;
    client.enableNonRepudiationChecks(configuration);
    if (isInsecure(server.issuer)) client.allowInsecureRequests(configuration);
    return configuration;
  }
}

/** A claim, or what a path leads to. The name of a claim may itself have dots. */
function claimAt(claims: Claims, path: string): unknown {
  if (Object.hasOwn(claims, path)) return claims[path];
  let value: unknown = claims;
  for (const part of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Claims)[part];
  }
  return value;
}

const groupsIn = (value: unknown): string[] =>
  (Array.isArray(value) ? value : textOf(value).split(','))
    .filter((group): group is string => typeof group === 'string')
    .map((group) => group.trim())
    .filter(Boolean);

const googleIssuer = 'https://accounts.google.com';
/** Any tenant of Entra may say that a person has any mail address. */
const entraHost = /(^|\.)(microsoftonline\.(com|us|cn)|sts\.windows\.net)$/;

export function personOf(claims: Claims, issuer: string, document: SignInDocument): Person {
  const { groupsClaim = 'groups' } = document;
  const isEntra = entraHost.test(new URL(issuer).hostname);
  const subject = textOf(claims.sub);
  const email = !isEntra && claims.email_verified === true ? textOf(claims.email).toLowerCase() : '';
  const mailDomain = issuer === googleIssuer ? '' : email.slice(email.lastIndexOf('@') + 1);
  const domains = isEntra ? [claims.tid] : [claims.hd, mailDomain];
  const wishes = [claims.preferred_username, claims.nickname, email, claims.name].map(textOf);
  const groups = claimAt(claims, groupsClaim);
  return {
    subject,
    displayName: shownName(textOf(claims.name) || wishes.find(Boolean) || subject),
    name: accountName(wishes, subject),
    emails: email ? [email] : [],
    domains: domains.map((domain) => textOf(domain).toLowerCase()).filter(Boolean),
    groups: groupsIn(groups),
    orgs: [],
    teams: [],
    claims: shownClaims(claims, groupsClaim.split('.')[0] ?? ''),
    note: groups === undefined && hasLink(claims, groupsClaim) ? tooManyGroups : '',
  };
}

/** Entra sends a link instead of more than 200 groups. */
const hasLink = ({ _claim_names: links }: Claims, groupsClaim: string): boolean =>
  typeof links === 'object' && links !== null && Object.hasOwn(links, groupsClaim);

const tooManyGroups =
  'The provider sent a link instead of your groups, because there are too many. An admin can use roles of the app instead (groupsClaim: roles).';
