import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import Provider, { type Configuration } from 'oidc-provider';

/** Claims of a person at the provider; `sub` is the id that never changes. */
export type Claims = { readonly sub: string } & Readonly<Record<string, unknown>>;

export const clientId = 'muster';
export const clientSecret = 'a-client-secret-of-the-tests';

/** A certified OpenID Connect provider, whose people sign in without a password. */
export interface IdentityProvider {
  readonly issuer: string;
  /** `127.0.0.1:1234` */
  readonly host: string;
  /** Whom the next browser signs in as. */
  person: Claims;
  /** Shows a page with a button instead of going back at once. */
  asks: boolean;
  /** Requests, as method and path. */
  readonly requests: string[];
  /** Redirect URIs that it knows. */
  readonly redirectUris: string[];
  close(): Promise<void>;
}

const ownClaims = [
  'name',
  'preferred_username',
  'groups',
  'hd',
  'tid',
  'realm_access',
  '_claim_names',
  'roles',
];

export async function startIdentityProvider(
  more: { readonly idTokenHasAll?: boolean } = {},
): Promise<IdentityProvider> {
  let handle: (request: IncomingMessage, response: ServerResponse) => void = () => {};
  const server = createServer((request, response) => handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const issuer = `http://${host}`;
  const redirectUris: string[] = [];
  const idp: IdentityProvider = {
    ...{ issuer, host, redirectUris, person: { sub: 'nobody' }, asks: false, requests: [] },
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  // It reads its configuration once, and the addresses are known later.
  let known = { provider: new Provider(issuer, configurationOf(idp, more.idTokenHasAll ?? true)), uris: 0 };
  handle = (request, response) => {
    if (known.uris !== redirectUris.length)
      known = {
        provider: new Provider(issuer, configurationOf(idp, more.idTokenHasAll ?? true)),
        uris: redirectUris.length,
      };
    const { provider } = known;
    idp.requests.push(`${request.method} ${request.url?.split('?')[0]}`);
    if (request.url?.startsWith('/interaction/')) void interact(provider, idp, request, response);
    else void provider.callback()(request, response);
  };
  return idp;
}

function configurationOf(idp: IdentityProvider, idTokenHasAll: boolean): Configuration {
  return {
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        grant_types: ['authorization_code'],
        response_types: ['code'],
        redirect_uris: idp.redirectUris.length > 0 ? idp.redirectUris : ['http://127.0.0.1/none'],
      },
    ],
    claims: { openid: ['sub', ...ownClaims, 'email', 'email_verified'], profile: [], email: [] },
    conformIdTokenClaims: !idTokenHasAll,
    pkce: { required: () => true },
    cookies: { keys: ['a-key-of-the-tests'] },
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    features: { devInteractions: { enabled: false } },
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ ...idp.person, sub: id }) }),
    loadExistingGrant: async (context) => {
      const { client, provider, session } = context.oidc;
      const grant = new provider.Grant({ clientId: client?.clientId, accountId: session?.accountId });
      grant.addOIDCScope('openid profile email');
      await grant.save();
      return grant;
    },
    ttl: { Interaction: 600, Grant: 600, Session: 600, AccessToken: 600, IdToken: 600 },
  };
}

/** Everybody is signed in as the person whose turn it is, again each time. */
async function interact(
  provider: Provider,
  idp: IdentityProvider,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (idp.asks && request.method === 'GET') {
    response.setHeader('content-type', 'text/html');
    response.end(
      '<!doctype html><title>Provider</title><form method="post"><button>Continue</button></form>',
    );
    return;
  }
  await provider.interactionFinished(request, response, {
    login: { accountId: idp.person.sub, remember: false },
  });
}
