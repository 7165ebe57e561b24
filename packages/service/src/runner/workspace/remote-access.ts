import { lookup } from 'node:dns/promises';
import { realpath } from 'node:fs/promises';
import { isIP } from 'node:net';
import type { GitCredential } from '@muster/sdk/contract';
import { canonicalHost, type HostRule, mayHaveAddress } from '../../lib/host-rules.ts';
import { type Repository, splitUrl } from '../../lib/repositories.ts';
import type { TenantRights } from '../tenant-allow.ts';
import type { Environment } from './environment.ts';
import { remoteEnvironment, runGit } from './git.ts';

/** How the runner's git connects to a repository's host. */
export interface RemoteAccess {
  readonly url: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Settings for one command; rejects if the tenant may not reach the host. */
  settings(): Promise<readonly string[]>;
  /** Throws if the repository is not reached over HTTP. */
  http(): HttpAccess;
}

/** How the runner itself connects to the LFS server of a repository. */
export interface HttpAccess {
  readonly url: string;
  readonly credential: { readonly username: string; readonly password: string } | undefined;
  /**
   * Which addresses the host of a URL may have: any at the origin of the repository, else public and listed ones. If
   * the server was reached at a public address (`isPublic`), its origin must stay public or listed too: its name could
   * later lead to an internal address.
   */
  addressesFor(url: URL, server: { readonly isPublic: boolean }): Promise<(address: string) => boolean>;
  /** What the runner's own git would use, if the tenant may use it. */
  ownCredential(): Promise<HttpAccess['credential']>;
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
  innerHosts: readonly HostRule[] = [],
  resolve: Resolve = lookupAll,
): Promise<RemoteAccess> {
  const { shownUrl, username, password } = splitUrl(repository.url);
  const credential = credentialSettings(shownUrl, username, password);
  if (rights.mayReach(await canonicalUrl(shownUrl))) {
    const own = remoteEnvironment(environment);
    const variables = { ...own, ...credentialVariables(shownUrl, username, password, own) };
    const ownCredential = () => filledCredential(shownUrl, variables);
    return {
      url: shownUrl,
      environment: variables,
      settings: async () => credential,
      http: () => httpAccess({ url: shownUrl, username, password }, rights, innerHosts, ownCredential),
    };
  }
  const howToAllow = rights.howToAllow('repos', shownUrl);
  if (isLocal(shownUrl))
    throw new Error(
      `${shownUrl}: this tenant may not use a repository on the runner's machine; ${howToAllow}`,
    );
  const bare = anonymousEnvironment(environment);
  return {
    url: shownUrl,
    environment: { ...bare, ...credentialVariables(shownUrl, username, password, bare) },
    settings: async () => {
      // An integration may cover it, so it is refused only when it is used.
      if (!httpUrl(shownUrl))
        throw new Error(`${shownUrl}: this tenant may not use a repository over ssh; ${howToAllow}`);
      const pinned = await pinnedAddress(shownUrl, howToAllow, [], resolve);
      return [...anonymousSettings, ...pinned, ...credential];
    },
    http: () => httpAccess({ url: shownUrl, username, password }, rights, innerHosts),
  };
}

/**
 * With the credential of an integration, over HTTP, and nothing of the runner's user. A tenant whose repositories the
 * operator does not list reaches public addresses, and those of internal networks that `innerHosts` names.
 */
export function integrationAccess(
  { url, username, password }: GitCredential,
  rights: TenantRights,
  environment: Environment,
  innerHosts: readonly HostRule[],
  resolve: Resolve = lookupAll,
): RemoteAccess {
  if (!httpUrl(url)) throw new Error(`${url}: expected an address that begins with https:// or http://`);
  const bare = anonymousEnvironment(environment);
  return {
    url,
    environment: { ...bare, ...credentialVariables(url, username, password, bare) },
    settings: async () => {
      const isListed = rights.mayReach(await canonicalUrl(url));
      const howToAllow = `the operator of this runner can allow it with MUSTER_ALLOW_INNER_HOSTS=${new URL(url).host}`;
      const pinned = isListed ? [] : await pinnedAddress(url, howToAllow, innerHosts, resolve);
      return [...anonymousSettings, ...pinned, ...credentialSettings(url, username, password)];
    },
    http: () => httpAccess({ url, username, password }, rights, innerHosts),
  };
}

function httpAccess(
  { url, username, password }: { readonly url: string; readonly username: string; readonly password: string },
  rights: TenantRights,
  innerHosts: readonly HostRule[],
  ownCredential: HttpAccess['ownCredential'] = async () => undefined,
): HttpAccess {
  if (!httpUrl(url)) throw new Error(`${url}: files in LFS need a repository over https:// or http://`);
  const named = rights.ofNamedBy(url);
  return {
    url,
    credential: username || password ? { username, password } : undefined,
    ownCredential,
    addressesFor: async ({ origin, pathname, hostname, port, protocol }, { isPublic }) => {
      const reaching = isPublic ? named.ofListed() : named;
      if (reaching.mayReach(await canonicalUrl(`${origin}${pathname}`))) return () => true;
      const target = {
        host: canonicalHost(hostname),
        port: Number(port) || (protocol === 'http:' ? 80 : 443),
      };
      return (address) => mayHaveAddress(target, address, innerHosts);
    },
  };
}

/** What the credential helpers of the runner's user say. */
async function filledCredential(
  url: string,
  environment: Readonly<Record<string, string>>,
): Promise<HttpAccess['credential']> {
  const input = async function* () {
    yield Buffer.from(`url=${url}\n\n`);
  };
  const options = { isRemote: true, environment, input: input(), timeoutMs: fillTimeoutMs } as const;
  const { exitCode, stdout } = await runGit(['credential', 'fill'], options);
  const field = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(stdout)?.[1] ?? '';
  const [username, password] = [field('username'), field('password')];
  return exitCode === 0 && password ? { username, password } : undefined;
}

const fillTimeoutMs = 30_000;

const originOf = (url: string): string | undefined => /^https?:\/\/[^/?#]*/i.exec(url)?.[0];

/** Git gets a password by its credential protocol: URLs are visible in process lists and messages. */
function credentialSettings(shownUrl: string, username: string, password: string): string[] {
  const origin = originOf(shownUrl);
  if (!origin || !username || !password) return [];
  const answer = `printf 'username=%s\\npassword=%s\\n' "$MUSTER_GIT_USERNAME" "$MUSTER_GIT_PASSWORD"`;
  const helper = `credential.${origin}.helper`;
  return ['-c', `${helper}=`, '-c', `${helper}=!f() { test "$1" = get && ${answer}; }; f`];
}

/** A user name without a password may be a token, so git gets it by the environment too, which others can't read. */
function credentialVariables(
  shownUrl: string,
  username: string,
  password: string,
  environment: Environment,
): Record<string, string> {
  if (password) return { MUSTER_GIT_USERNAME: username, MUSTER_GIT_PASSWORD: password };
  const origin = originOf(shownUrl);
  if (!origin || !username) return {};
  const at = Number(environment.GIT_CONFIG_COUNT ?? 0) || 0;
  return {
    GIT_CONFIG_COUNT: `${at + 1}`,
    [`GIT_CONFIG_KEY_${at}`]: `credential.${origin}.username`,
    [`GIT_CONFIG_VALUE_${at}`]: username,
  };
}

const anonymousSettings = [...['-c', 'http.emptyAuth=false'], ...['-c', 'credential.helper=']];

/**
 * Resolves the host name once and makes git connect to these addresses, so that a name whose address changes between
 * the check and the connection is harmless. Behind a proxy of the runner, the proxy resolves it.
 */
async function pinnedAddress(
  shownUrl: string,
  howToAllow: string,
  innerHosts: readonly HostRule[],
  resolve: Resolve,
): Promise<string[]> {
  const url = new URL(shownUrl);
  const host = canonicalHost(url.hostname);
  const port = url.port || (url.protocol === 'http:' ? '80' : '443');
  // The pinned name must be exactly the one that git reads.
  if (!shownUrl.toLowerCase().startsWith(`${url.protocol}//${url.host}`) || url.hostname.endsWith('.'))
    throw new Error(
      `${shownUrl}: write the host as ${host}, without a trailing dot, encoded characters or the default port`,
    );
  const addresses = isIP(host) ? [host] : await resolve(host);
  if (addresses.length === 0) throw new Error(`${shownUrl}: the host name ${host} can't be resolved`);
  const target = { host, port: Number(port) };
  const inner = addresses.find((address) => !mayHaveAddress(target, address, innerHosts));
  if (inner !== undefined)
    throw new Error(`${shownUrl}: ${host} is ${inner}, an address of an internal network; ${howToAllow}`);
  if (isIP(host)) return [];
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
