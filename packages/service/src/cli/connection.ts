import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { addressFile, keyFile } from './data-folder.ts';
import { withoutSlash } from './environment.ts';
import { CommandError, exitCodes } from './exit-codes.ts';

/** Where the service is and who calls. */
export interface Connection {
  readonly url: string;
  readonly apiKey: string;
  /** How it was found, for `muster config`. */
  readonly source: string;
}

/** What `muster login` remembers. */
export interface Login {
  readonly url: string;
  readonly apiKey: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

export const loginFile = (env: Environment): string =>
  join(env.XDG_CONFIG_HOME || join(homedir(), '.config'), 'muster', 'login.json');

/** What no request could be made with. */
export function refuseUnusable({ url, apiKey }: Login): void {
  if (!URL.canParse(url) || !/^https?:/.test(url))
    throw new CommandError(`"${url}" is no address; one begins with http:// or https://`, exitCodes.usage);
  if (/[^\x21-\x7e]/.test(apiKey))
    throw new CommandError(`the key for ${url} has a character that no key has`, exitCodes.usage);
}

/**
 * In this order: the flag and the variables, what `login` remembers, the service that runs on this machine with its
 * data folder here or further up. The first that says where the service is also says who calls, unless a variable does.
 */
export function findConnection(
  flags: { readonly url?: string | undefined },
  env: Environment,
  folder: string,
): Connection {
  const connection = firstConnection(flags, env, folder);
  refuseUnusable(connection);
  return connection;
}

function firstConnection(
  flags: { readonly url?: string | undefined },
  env: Environment,
  folder: string,
): Connection {
  const given = flags.url || env.MUSTER_URL;
  const login = readLogin(env);
  const local = findLocal(env, folder);
  if (given) {
    const url = withoutSlash(given);
    const apiKey = env.MUSTER_API_KEY || [login, local].find((known) => known?.url === url)?.apiKey;
    if (!apiKey)
      throw new CommandError(
        `no key for ${url}: set MUSTER_API_KEY, or run muster login --url ${url}`,
        exitCodes.denied,
      );
    return { url, apiKey, source: flags.url ? '--url' : 'MUSTER_URL' };
  }
  if (local && !login)
    return { ...local, apiKey: env.MUSTER_API_KEY || local.apiKey, source: 'the service of this folder' };
  if (login) return { ...login, apiKey: env.MUSTER_API_KEY || login.apiKey, source: 'muster login' };
  throw new CommandError(
    'no service found: start one with muster serve, or set MUSTER_URL and MUSTER_API_KEY',
    exitCodes.unreachable,
  );
}

export function readLogin(env: Environment): Login | undefined {
  const file = loginFile(env);
  const text = textOf(file);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as Login;
  } catch {
    throw new CommandError(`${file} is no login; muster login writes it anew`);
  }
}

/** The service whose data folder is in this folder or in one above. */
function findLocal(env: Environment, folder: string): Login | undefined {
  const folders = env.MUSTER_DATA
    ? [resolve(env.MUSTER_DATA)]
    : foldersUp(folder).map((one) => join(one, '.muster'));
  for (const data of folders) {
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
