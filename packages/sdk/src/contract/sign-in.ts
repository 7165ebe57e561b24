import { tenantIn, whoamiReply } from './identity.ts';
import { type Infer, reply } from './infer.ts';
import { limits } from './limits.ts';
import { pageIn, text, timestamp } from './scalars.ts';

/** How a browser signs in: with a key, or with a one-time code of somebody who has one. It gets a session cookie. */

export const signInCodeRequest = { title: 'SignInCodeRequest', type: 'object', properties: {} } as const;

export const signInCodeReply = reply('SignInCodeReply', {
  code: { type: 'string', description: 'Good once, at the node that made it.' },
  expiresAt: timestamp,
});
export type SignInCode = Infer<typeof signInCodeReply>;

export const signInRequest = {
  title: 'SignInRequest',
  type: 'object',
  properties: {
    code: {
      type: 'string',
      minLength: 1,
      maxLength: limits.idLength,
      description: 'Of signInCode. Without one, the key in the header Authorization signs in.',
      expected: 'a code of signInCode',
    },
    switchAccount: {
      type: 'boolean',
      description:
        'Whether the code may take the place of a session of another account that this browser has. Else that is ACCOUNT_SWITCH.',
    },
    share: {
      type: 'boolean',
      description: "Whether the key is the secret of a share link. Then the session shows that link's agent.",
    },
  },
} as const;

export const browserSession = reply('BrowserSession', {
  id: { ...text, description: 'Names the session. It is not the secret in the cookie.' },
  ownerProvider: whoamiReply.properties.ownerProvider,
  account: text,
  role: whoamiReply.properties.role,
  keyId: { ...text, description: 'The key that signed in. The session ends with it.' },
  userAgent: { ...text, description: 'What the browser said it is when it signed in.' },
  createdAt: timestamp,
  lastSeenAt: { ...timestamp, description: 'Of the last request, to within five minutes.' },
  expiresAt: { ...timestamp, description: 'The session ends then, or earlier when it is not used.' },
});
export type BrowserSession = Infer<typeof browserSession>;

/** Who is signed in, and by which session. */
export const signedInReply = reply('SignedIn', { session: browserSession, caller: whoamiReply });
export type SignedIn = Infer<typeof signedInReply>;

export const signOutRequest = { title: 'SignOutRequest', type: 'object', properties: {} } as const;

export const listSessionsRequest = {
  title: 'ListSessionsRequest',
  type: 'object',
  properties: {
    tenant: tenantIn,
    account: {
      type: 'string',
      maxLength: 300,
      description:
        'Empty: your own. For admins also `*`: all. `name`: under your provider. `provider_name/name`: under that one.',
    },
    ...pageIn,
  },
} as const;
export type ListSessionsRequest = Infer<typeof listSessionsRequest>;

export const listSessionsReply = reply('ListSessionsReply', {
  entries: { type: 'array', items: browserSession },
  nextPageToken: text,
});

export const revokeSessionRequest = {
  title: 'RevokeSessionRequest',
  type: 'object',
  properties: {
    tenant: tenantIn,
    id: { type: 'string', format: 'uuid', expected: 'the id of a session, as listSessions shows it' },
  },
  required: ['id'],
} as const;
export type RevokeSessionRequest = Infer<typeof revokeSessionRequest>;
