import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { CommandError, exitCodes, usageError } from './errors.ts';
import { defaultProfile, type Login, profileIn, readProfiles } from './profiles.ts';

export interface ServiceConnection extends Login {
  /** Where the URL comes from, for `muster config`. */
  readonly source: string;
}

/** The files in a service's data folder by which commands find it. */
export const addressFile = (folder: string): string => join(folder, 'address');
export const keyFile = (folder: string): string => join(folder, 'admin.key');

type Environment = Readonly<Record<string, string | undefined>>;

/** Removes slashes at the end, because paths are appended to it. */
export const withoutSlash = (url: string): string => url.replace(/\/+$/, '');

/** The code is in the fragment, which browsers do not send to servers. */
export const signInUrl = (page: string, code: string): string => `${page}#code=${code}`;

export function checkLogin({ url, apiKey }: Login, source = ''): void {
  if (!URL.canParse(url) || !/^https?:/.test(url))
    throw usageError(
      `${source && `${source}: `}"${url}" is not a URL; expected one that starts with http:// or https://`,
    );
  if (/[^\x21-\x7e]/.test(apiKey))
    throw usageError(`the API key for ${url} contains a space or a character outside ASCII`);
}

/**
 * Finds the service and the API key, in this order: --url or MUSTER_URL, the profile in use of those that `muster login` stored, the service whose
 * data folder is in this folder or in one above. MUSTER_API_KEY overrides the key of each.
 */
export function findConnection(
  flags: { readonly url?: string | undefined },
  env: Environment,
  folder: string,
): ServiceConnection {
  const [profile = '', login] = profileIn(env) ?? [];
  const local = findLocal(env, folder);
  const url = withoutSlash(flags.url || env.MUSTER_URL || '');
  const known =
    (url !== '' && {
      url,
      apiKey: [login, ...Object.values(readProfiles(env).profiles), local].find((each) => each?.url === url)
        ?.apiKey,
      source: flags.url ? '--url' : 'MUSTER_URL',
    }) ||
    (login && {
      ...{ url: login.url, apiKey: login.apiKey },
      source: profile === defaultProfile ? 'muster login' : `the profile ${profile}`,
    }) ||
    (local && { ...local, source: 'the service of this folder' });
  if (!known)
    throw new CommandError(
      Object.keys(readProfiles(env).profiles).length > 0
        ? 'no profile is in use: muster use NAME chooses one, and muster profiles lists them'
        : 'no service found: start one with muster serve, or set MUSTER_URL and MUSTER_API_KEY',
      exitCodes.unreachable,
    );
  const apiKey = env.MUSTER_API_KEY || known.apiKey;
  if (!apiKey)
    throw new CommandError(
      `no API key for ${url}: set MUSTER_API_KEY, or run muster login --url ${url}`,
      exitCodes.denied,
    );
  const connection = { ...known, apiKey };
  checkLogin(connection, connection.source);
  return connection;
}

function findLocal(env: Environment, folder: string): Login | undefined {
  const dataFolders = env.MUSTER_DATA
    ? [resolve(env.MUSTER_DATA)]
    : foldersUp(folder).map((one) => join(one, '.muster'));
  for (const data of dataFolders) {
    const url = textOf(addressFile(data));
    const apiKey = textOf(keyFile(data));
    if (url && apiKey) return { url, apiKey };
  }
  return undefined;
}

function foldersUp(folder: string): string[] {
  const above = dirname(folder);
  return above === folder ? [folder] : [folder, ...foldersUp(above)];
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return undefined;
  }
}
