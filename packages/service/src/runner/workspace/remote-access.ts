import { lookup } from 'node:dns/promises';
import { realpath } from 'node:fs/promises';
import { isIP } from 'node:net';
import type { Repository } from '../../lib/repositories.ts';
import { canonicalHost, isPrivateAddress } from '../gateway/egress.ts';
import type { TenantRights } from '../tenant-allow.ts';
import type { Environment } from './environment.ts';
import { remoteEnvironment } from './git.ts';

/** How the runner's git goes to a repository's host. */
export interface RemoteAccess {
  readonly environment: Readonly<Record<string, string>>;
  /** Settings of one command; rejects where that host may not be reached. */
  settings(): Promise<readonly string[]>;
}

/** The addresses of a name; none when it can't be resolved. */
type Resolve = (host: string) => Promise<readonly string[]>;

const lookupAll: Resolve = async (host) =>
  (await lookup(host, { all: true }).catch(() => [])).map(({ address }) => address);

/**
 * With the runner's own credentials where the tenant may use them. Else as a stranger on the open internet: over HTTP,
 * without anything of the runner's user, and only to public addresses. Throws where that is not possible.
 */
export async function remoteAccess(
  repository: Repository,
  rights: TenantRights,
  environment: Environment,
  resolve: Resolve = lookupAll,
): Promise<RemoteAccess> {
  const { shownUrl } = repository;
  if (rights.mayReach(await placeOf(shownUrl)))
    return { environment: remoteEnvironment(environment), settings: async () => [] };
  const advice = rights.advice('repos', shownUrl);
  const url = httpUrl(shownUrl);
  if (!url) {
    const what = isLocal(shownUrl) ? "a repository on the runner's machine" : 'a repository over ssh';
    throw new Error(`${shownUrl}: this tenant may not use ${what}; ${advice}`);
  }
  return {
    environment: strangerEnvironment(environment),
    settings: async () => [...strangerSettings, ...(await pinned(url, shownUrl, advice, resolve))],
  };
}

/** No redirect is followed: it could lead into an inner network after the check. */
const strangerSettings = [
  '-c',
  'http.followRedirects=false',
  '-c',
  'http.emptyAuth=false',
  '-c',
  'credential.helper=',
];

/**
 * Resolves the name once and has git connect to what was found, so that a name which changes its address between the
 * check and the connection leads nowhere else. Behind a proxy of the runner, the proxy resolves it.
 */
async function pinned(url: URL, shownUrl: string, advice: string, resolve: Resolve): Promise<string[]> {
  const host = canonicalHost(url.hostname);
  // What is pinned has to be the very name that git reads.
  if (!shownUrl.toLowerCase().startsWith(`${url.protocol}//${url.host}`) || url.hostname.endsWith('.'))
    throw new Error(
      `${shownUrl}: write its host as ${host}, without a final dot, encoded characters or a usual port`,
    );
  const addresses = isIP(host) ? [host] : await resolve(host);
  if (addresses.length === 0) throw new Error(`${shownUrl}: the name ${host} can't be resolved`);
  const inner = addresses.find((address) => isPrivateAddress(address));
  if (inner !== undefined)
    throw new Error(`${shownUrl}: ${host} is ${inner}, an address of an inner network; ${advice}`);
  if (isIP(host)) return [];
  const port = url.port || (url.protocol === 'http:' ? '80' : '443');
  const list = addresses.map((address) => (isIP(address) === 6 ? `[${address}]` : address)).join();
  return ['-c', `http.curloptResolve=${url.hostname}:${port}:${list}`];
}

const passedOn =
  /^(PATH|TMPDIR|GIT_SSL_CAINFO|GIT_SSL_CAPATH|SSL_CERT_FILE|SSL_CERT_DIR|(https?|all|no)_proxy)$/i;

/** Git without the configuration, keys, agents and credential helpers of the runner's user. */
function strangerEnvironment(environment: Environment): Record<string, string> {
  const passed = Object.entries(environment).flatMap(([name, value]) =>
    value !== undefined && passedOn.test(name) ? [[name, value] as const] : [],
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

/** Written so that it means something else to the one who reads it next: dots, backslashes, encoded either way. */
const ambiguous = /(^|[/:])\.{1,2}(\/|$)|\\|%(2e|2f|5c|00)/i;

/** A URL in the one form that patterns are compared with; undefined when it has none, and no pattern matches. */
async function placeOf(url: string): Promise<string | undefined> {
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
