import { lookup } from 'node:dns/promises';
import { realpath } from 'node:fs/promises';
import { isIP } from 'node:net';
import type { Repository } from '../../lib/repositories.ts';
import { canonicalHost, isPrivateAddress } from '../gateway/egress.ts';
import type { TenantRights } from '../tenant-allow.ts';
import type { Environment } from './environment.ts';
import { remoteEnvironment } from './git.ts';

/** How the runner's git connects to a repository's host. */
export interface RemoteAccess {
  readonly environment: Readonly<Record<string, string>>;
  /** Settings for one command; rejects if the tenant may not reach the host. */
  settings(): Promise<readonly string[]>;
}

/** The addresses of a host name; none if it can't be resolved. */
type Resolve = (host: string) => Promise<readonly string[]>;

const lookupAll: Resolve = async (host) =>
  (await lookup(host, { all: true }).catch(() => [])).map(({ address }) => address);

/**
 * With the runner's own credentials if the tenant may use them. Otherwise anonymous: over HTTP, without configuration or
 * credentials of the runner's user, and only to public addresses. Throws if that is not possible.
 */
export async function remoteAccess(
  repository: Repository,
  rights: TenantRights,
  environment: Environment,
  resolve: Resolve = lookupAll,
): Promise<RemoteAccess> {
  const { shownUrl } = repository;
  if (rights.mayReach(await canonicalUrl(shownUrl)))
    return { environment: remoteEnvironment(environment), settings: async () => [] };
  const howToAllow = rights.howToAllow('repos', shownUrl);
  const url = httpUrl(shownUrl);
  if (!url) {
    const what = isLocal(shownUrl) ? "a repository on the runner's machine" : 'a repository over ssh';
    throw new Error(`${shownUrl}: this tenant may not use ${what}; ${howToAllow}`);
  }
  return {
    environment: anonymousEnvironment(environment),
    settings: async () => [
      ...anonymousSettings,
      ...(await pinnedAddress(url, shownUrl, howToAllow, resolve)),
    ],
  };
}

/** Without redirects: after the check, one could lead into an internal network. */
const anonymousSettings = [
  ...['-c', 'http.followRedirects=false'],
  ...['-c', 'http.emptyAuth=false'],
  ...['-c', 'credential.helper='],
];

/**
 * Resolves the host name once and makes git connect to these addresses, so that a name whose address changes between
 * the check and the connection is harmless. Behind a proxy of the runner, the proxy resolves it.
 */
async function pinnedAddress(
  url: URL,
  shownUrl: string,
  howToAllow: string,
  resolve: Resolve,
): Promise<string[]> {
  const host = canonicalHost(url.hostname);
  // The pinned name must be exactly the one that git reads.
  if (!shownUrl.toLowerCase().startsWith(`${url.protocol}//${url.host}`) || url.hostname.endsWith('.'))
    throw new Error(
      `${shownUrl}: write the host as ${host}, without a trailing dot, encoded characters or the default port`,
    );
  const addresses = isIP(host) ? [host] : await resolve(host);
  if (addresses.length === 0) throw new Error(`${shownUrl}: the host name ${host} can't be resolved`);
  const inner = addresses.find((address) => isPrivateAddress(address));
  if (inner !== undefined)
    throw new Error(`${shownUrl}: ${host} is ${inner}, an address of an internal network; ${howToAllow}`);
  if (isIP(host)) return [];
  const port = url.port || (url.protocol === 'http:' ? '80' : '443');
  const list = addresses.map((address) => (isIP(address) === 6 ? `[${address}]` : address)).join();
  return ['-c', `http.curloptResolve=${url.hostname}:${port}:${list}`];
}

const passedVariables =
  /^(PATH|TMPDIR|GIT_SSL_CAINFO|GIT_SSL_CAPATH|SSL_CERT_FILE|SSL_CERT_DIR|(https?|all|no)_proxy)$/i;

/** Without the configuration, keys, ssh agents and credential helpers of the runner's user. */
function anonymousEnvironment(environment: Environment): Record<string, string> {
  const passed = Object.entries(environment).flatMap(([name, value]) =>
    value !== undefined && passedVariables.test(name) ? [[name, value] as const] : [],
  );
  return {
    PATH: '/usr/local/bin:/usr/bin:/bin',
    ...Object.fromEntries(passed),
    HOME: '/nonexistent',
    LC_ALL: 'C.UTF-8',
    LANGUAGE: 'C',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_SSH_COMMAND: 'false',
    GIT_ALLOW_PROTOCOL: 'https:http',
  };
}

const isLocal = (url: string): boolean => url.startsWith('/') || /^file:/i.test(url);

/** Dots, backslashes and encoded separators: another program may read the URL differently. */
const ambiguous = /(^|[/:])\.{1,2}(\/|$)|\\|%(2e|2f|5c|00)/i;

/** The form of a URL that patterns are compared with; undefined if it has none, and then no pattern matches. */
async function canonicalUrl(url: string): Promise<string | undefined> {
  if (ambiguous.test(url)) return undefined;
  if (isLocal(url)) {
    const path = url.startsWith('/') ? url : url.slice('file://'.length);
    return (
      (await realpath(path).catch(() => undefined)) ?? (await realpath(`${path}.git`).catch(() => undefined))
    );
  }
  if (!/^https?:/i.test(url)) return url;
  const parsed = httpUrl(url);
  return parsed?.search === '' && parsed.hash === '' ? `${parsed.origin}${parsed.pathname}` : undefined;
}

function httpUrl(text: string): URL | undefined {
  try {
    return /^https?:/i.test(text) ? new URL(text) : undefined;
  } catch {
    return undefined;
  }
}
