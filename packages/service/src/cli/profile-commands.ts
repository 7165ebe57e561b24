import { ConnectionError, MusterClient, UnauthenticatedError } from '@muster/sdk';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, exitCodes } from './errors.ts';
import { type Profile, profileIn, readProfiles, removeProfile, writeProfiles } from './profiles.ts';

/** Commands about what `muster login` stored, for several services. */
export function addProfileCommands(program: Command): void {
  const logoutText = 'revoke the key that muster login got, and delete it here';
  addCommand(program, 'logout', logoutText, logout).option(
    '--profile <name>',
    'of this profile (default: the one in use)',
  );
  addCommand(program, 'profiles', 'list the services that muster login stored', profiles);
  addCommand(program, 'use [profile]', 'use another stored service; without a name, list them', use);
}

async function logout({ flags, env, output, signal }: Invocation<Flags<'profile'>>): Promise<void> {
  const found = profileIn(env, flags.profile);
  if (!found) throw new CommandError('no profile is in use; muster profiles lists them', exitCodes.notFound);
  const [name, profile] = found;
  const keyId = keyIdOf(profile);
  const failure = profile.isOwnKey
    ? await revokeOwn(profile, signal).catch((error: Error) => error)
    : undefined;
  removeProfile(env, name);
  if (failure)
    throw new CommandError(
      `deleted the profile ${name}, but its key ${keyId} is not revoked, because ${reasonOf(failure, profile.url)}: revoke it with muster keys revoke ${keyId}, or in the dashboard`,
      exitCodes.unreachable,
    );
  output.answer({ profile: name, keyId, revoked: profile.isOwnKey === true }, () => {
    output.line(`signed out of ${profile.url}`);
    if (!profile.isOwnKey)
      output.note(
        `The key ${keyId} was given to muster login and may be used elsewhere: muster keys revoke ${keyId} ends it.`,
      );
  });
}

const reasonOf = (error: Error, url: string): string =>
  error instanceof ConnectionError ? `${url} can't be reached` : error.message;

/** Revokes the key of a profile with the key itself. One that has ended is fine. */
export async function revokeOwn({ url, apiKey }: Profile, signal: AbortSignal): Promise<void> {
  const client = new MusterClient({ url, apiKey, retries: { tries: 2 } });
  await client.revokeKey(keyIdOf({ apiKey }), { signal }).catch((error: unknown) => {
    if (!(error instanceof UnauthenticatedError)) throw error;
  });
}

/** The public part of a key: `mst_<key_id>.<secret>`. */
const keyIdOf = ({ apiKey }: Pick<Profile, 'apiKey'>): string =>
  /^mst_([^.]+)\./.exec(apiKey)?.[1] ?? 'unknown';

async function profiles({ env, output }: Invocation): Promise<void> {
  const stored = readProfiles(env);
  const used = profileIn(env)?.[0];
  const rows = Object.entries(stored.profiles).map(([profile, { url, apiKey }]) => ({
    ...{ profile, url, keyId: keyIdOf({ apiKey }), isUsed: profile === used },
  }));
  rows.sort((a, b) => (a.profile < b.profile ? -1 : 1));
  await output.table(
    rows,
    [
      { title: '', of: ({ isUsed }) => (isUsed ? '*' : '') },
      { title: 'PROFILE', of: ({ profile }) => profile },
      { title: 'URL', of: ({ url }) => url, isFlexible: true },
      { title: 'KEY', of: ({ keyId }) => keyId },
    ],
    'no profiles; muster login stores one',
  );
}

async function use(invocation: Invocation, name?: string): Promise<void> {
  if (name === undefined) return profiles(invocation);
  const { env, output } = invocation;
  const [profile, { url }] = profileIn(env, name) ?? [name, { url: '' }];
  writeProfiles(env, { ...readProfiles(env), current: profile });
  output.answer({ profile, url }, () => output.line(`${profile}: ${url}`));
  if (env.MUSTER_PROFILE && env.MUSTER_PROFILE !== profile)
    output.note(`MUSTER_PROFILE is set here, so ${env.MUSTER_PROFILE} stays in use in this shell`);
}
