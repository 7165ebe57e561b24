import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { CommandError, exitCodes, usageError } from './errors.ts';

/** A service with a key for it. */
export interface Login {
  readonly url: string;
  readonly apiKey: string;
}

/** A login that is stored under a name. */
export interface Profile extends Login {
  /** `muster login` got the key for this machine, so `muster logout` revokes it. */
  readonly isOwnKey?: boolean;
}

export interface Profiles {
  /** The profile in use; empty if none is. */
  readonly current: string;
  readonly profiles: Readonly<Record<string, Profile>>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The name of a profile that nobody named. */
export const defaultProfile = 'default';

const none: Profiles = { current: '', profiles: {} };

export const loginFile = (env: Environment): string =>
  join(env.XDG_CONFIG_HOME || join(homedir(), '.config'), 'muster', 'login.json');

/** What `muster login` has stored. Its first versions stored one login, without a name. */
export function readProfiles(env: Environment): Profiles {
  const file = loginFile(env);
  const text = textOf(file);
  if (text === undefined) return none;
  const stored = parsed(file, text);
  if (typeof stored.url === 'string' && typeof stored.apiKey === 'string')
    return {
      current: defaultProfile,
      profiles: { [defaultProfile]: { url: stored.url, apiKey: stored.apiKey } },
    };
  return { ...none, ...stored };
}

function parsed(file: string, text: string): Partial<Profiles & Login> {
  try {
    return JSON.parse(text) as Partial<Profiles & Login>;
  } catch {
    throw new CommandError(`${file} is not valid JSON; run muster login to write it again`);
  }
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/** The file is replaced, so that no reader sees a part of it, and only its owner can read it. */
export function writeProfiles(env: Environment, profiles: Profiles): void {
  const file = loginFile(env);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const written = `${file}.${process.pid}`;
  try {
    writeFileSync(written, `${JSON.stringify(profiles)}\n`, { mode: 0o600, flag: 'wx' });
    renameSync(written, file);
  } catch (error) {
    rmSync(written, { force: true });
    throw new CommandError(`can't write ${file}: ${(error as Error).message}`);
  }
}

/** The profile of this name, or the one in use: MUSTER_PROFILE, then that of `muster use`. */
export function profileIn(env: Environment, name?: string): readonly [name: string, Profile] | undefined {
  const { current, profiles } = readProfiles(env);
  const wanted = name || env.MUSTER_PROFILE || '';
  const used = wanted || current;
  const profile = Object.hasOwn(profiles, used) ? profiles[used] : undefined;
  if (!profile && wanted)
    throw new CommandError(`no profile "${wanted}"; ${namesText(profiles)}`, exitCodes.notFound);
  return profile && [used, profile];
}

const namesText = (profiles: Profiles['profiles']): string => {
  const names = Object.keys(profiles).sort();
  return names.length > 0 ? `the profiles are ${names.join(', ')}` : 'muster login stores one';
};

/** Stores a login, and uses it from now on. */
export const storeProfile = (env: Environment, name: string, profile: Profile): void =>
  writeProfiles(env, { current: name, profiles: { ...readOrNone(env).profiles, [name]: profile } });

export const storedProfile = (env: Environment, name: string): Profile | undefined =>
  readOrNone(env).profiles[name];

/** A file that can't be read is written again. */
function readOrNone(env: Environment): Profiles {
  try {
    return readProfiles(env);
  } catch {
    return none;
  }
}

export function removeProfile(env: Environment, name: string): void {
  const { current, profiles } = readProfiles(env);
  const { [name]: _, ...rest } = profiles;
  writeProfiles(env, { current: current === name ? '' : current, profiles: rest });
}

export function checkProfileName(name: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name) && name !== '__proto__') return name;
  throw usageError(`--profile: expected a name of letters, digits, ".", "_" and "-"; got "${name}"`);
}
