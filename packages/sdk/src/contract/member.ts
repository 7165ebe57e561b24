import { provider, roles, tenantIn } from './identity.ts';
import { limits } from './limits.ts';
import {
  accountIn,
  boolean,
  type Infer,
  pageIn,
  pageOf,
  reply,
  request,
  requestWith,
  text,
  timestampOrNull,
} from './schema.ts';

/** The roles that an admin may set for an account. */
export const memberRoles = ['viewer', 'member', 'admin'] as const;
export type MemberRole = (typeof memberRoles)[number];

const count = { type: 'integer', minimum: 0 } as const;

export const member = reply('Member', {
  ownerProvider: provider,
  account: text,
  displayName: {
    ...text,
    description: 'As the identity provider names the person; empty if it is not known.',
  },
  role: {
    type: 'string',
    enum: ['', ...roles],
    description:
      'The highest role that its valid keys have now. Without a valid key, the role of its next sign-in; empty if it can not sign in.',
  },
  roleOverride: {
    type: 'string',
    enum: ['', ...memberRoles],
    description: 'The role that an admin has set: empty if none.',
  },
  disabled: { ...boolean, description: 'None of its keys and sessions works.' },
  lastSignIn: {
    ...text,
    description: 'The `sign-in` of the catalog that it last signed in with; empty if it uses keys.',
  },
  lastSeenAt: {
    ...timestampOrNull,
    description:
      'Its last sign-in, the last request of a session that has not ended, or the last day on which a key was used.',
  },
  keys: { ...count, description: 'Its keys that have not expired, without those of share links.' },
  sessions: { ...count, description: 'Browsers in which it is signed in.' },
  liveAgents: count,
  spendUsd: { type: 'number', description: 'What its agents cost in this month of UTC.' },
});
export type Member = Infer<typeof member>;

export const listMembersRequest = request('ListMembersRequest', {
  tenant: tenantIn,
  text: {
    type: 'string',
    maxLength: 256,
    description: 'Only accounts with this text in their name or display name, in any case.',
  },
  ...pageIn,
});

export const listMembersReply = pageOf('ListMembersReply', member);

export const updateMemberRequest = requestWith('UpdateMemberRequest', ['account', 'ownerProvider'], {
  tenant: tenantIn,
  account: { ...accountIn, minLength: 1, expected: 'an account of listMembers' },
  ownerProvider: {
    ...provider,
    description: 'Of that account: the same name at two providers is two accounts.',
  },
  disabled: {
    ...boolean,
    description: 'Whether its keys and sessions stop. Its agents stay as they are. Absent: unchanged.',
  },
  role: {
    type: 'string',
    enum: ['', ...memberRoles],
    description:
      'Its role, until it is cleared with an empty text. It replaces the role of a sign-in, and is the most that a token of the account can do. Absent: unchanged.',
  },
  justification: { type: 'string', maxLength: limits.justificationLength },
});
