import type { Member } from '@muster/sdk';
import { type MemberRole, memberRoles, providerName } from '@muster/sdk/contract';
import { plural } from '../../parts/model/text.ts';
import type { Tone } from '../../parts/model/tone.ts';

/** `codehost_oauth/ada`: the same name at two providers is two people. */
export const fullName = ({ ownerProvider, account }: Pick<Member, 'ownerProvider' | 'account'>): string =>
  `${providerName(ownerProvider)}/${account}`;

/** The display name, or the account. */
export const personName = ({ displayName, account }: Member): string => displayName || account;

export const stateOf = ({ disabled, role }: Member): readonly [text: string, tone: Tone] => {
  if (disabled) return ['disabled', 'bad'];
  return role === '' ? ['no key', 'quiet'] : [role, 'quiet'];
};

/** What disabling the account leads to. */
export function disablingText(member: Member): string {
  const { sessions, keys, liveAgents } = member;
  const ends = `${plural(sessions, 'session')} and ${plural(keys, 'key')} of ${personName(member)} stop working on every node within 5 seconds.`;
  const agents =
    liveAgents === 0
      ? 'It has no live agents.'
      : `Its ${plural(liveAgents, 'live agent')} ${liveAgents === 1 ? 'stays as it is' : 'stay as they are'}.`;
  return `${ends} ${agents} Its schedules and triggers are paused at their next time, and the share links of its agents stop working.`;
}

const roleTexts: Readonly<Record<MemberRole, string>> = {
  viewer: 'sees everything and changes nothing',
  member: 'commands its own agents and sees those of others',
  admin: 'commands all agents, and changes the catalog and the members',
};

/** Without a role that is set, a sign-in and the keys decide. */
export const roleOptions: readonly (readonly [value: string, title: string])[] = [
  ['', 'As its sign-in and its keys say'],
  ...memberRoles.map((role) => [role, `${role}: ${roleTexts[role]}`] as const),
];

/** What setting that role leads to. */
export function roleText(member: Member, role: string): string {
  const who = personName(member);
  if (role === '')
    return member.roleOverride === ''
      ? `No role is set for ${who}.`
      : `The role ${member.roleOverride} no longer applies to ${who}: its sign-in and its keys decide.`;
  return `${who} ${roleTexts[role as MemberRole]}. A token of the account with a lower role stays as it is.`;
}
