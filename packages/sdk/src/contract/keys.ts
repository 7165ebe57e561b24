import { accountFilter, provider, roles, tenantIn } from './identity.ts';
import { limits } from './limits.ts';
import {
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

/** What a key belongs to: a resource of the catalog, a command line that signed in, or a sign-in through a provider. */
export const keyKinds = ['token', 'login', 'sign-in'] as const;

export const listKeysRequest = request('ListKeysRequest', {
  tenant: tenantIn,
  account: accountFilter,
  ...pageIn,
});

export const listedKey = reply('ListedKey', {
  keyId: { ...text, description: 'The public part of the key.' },
  kind: {
    ...text,
    description: `One of ${keyKinds.join(', ')}: a resource of the catalog, a command line, or a browser that signed in through a provider.`,
  },
  name: {
    ...text,
    description:
      'Of a token, its name in the catalog; of a sign-in, the document with which; otherwise empty.',
  },
  ownerProvider: provider,
  account: text,
  role: { type: 'string', enum: roles },
  client: { ...text, description: 'Of a login, what the program said of itself; otherwise empty.' },
  createdAt: { ...timestampOrNull, description: 'Null for a token: its history has the time.' },
  lastUsedAt: { ...timestampOrNull, description: 'Accurate to a day.' },
  expiresAt: { ...timestampOrNull, description: 'A login is extended by its use.' },
  isCurrent: { ...boolean, description: 'It is the key of this request.' },
});
export type ListedKey = Infer<typeof listedKey>;

export const listKeysReply = pageOf('ListKeysReply', listedKey);

export const revokeKeyRequest = requestWith('RevokeKeyRequest', ['keyId'], {
  tenant: tenantIn,
  keyId: { type: 'string', minLength: 1, maxLength: 128, expected: 'the id of a key, as listKeys shows it' },
  justification: {
    type: 'string',
    maxLength: limits.justificationLength,
    description: 'For the audit; required for operators.',
  },
});
