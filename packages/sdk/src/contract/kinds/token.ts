import { providerIn, roles } from '../identity.ts';
import { accountIn, type Infer } from '../schema.ts';
import { expiry, field, type KindEntry, nameOf, open, rotate } from './kind.ts';
import { joined, labelled, textIn } from './summary.ts';

const schema = open({
  role: field({ type: 'string', enum: roles }, 'The role of the key, at most your own.', 'member'),
  ownerProvider: field(
    providerIn,
    "The provider of the account; the creator's, if absent.",
    'PROVIDER_CODEHOST_OAUTH',
  ),
  account: field(accountIn, "The account of the key; the creator's, if absent.", 'ada'),
  pool: field(nameOf('pool'), 'The pool of a runner; only for role runner.', 'default'),
  expiresAt: expiry,
  rotate,
});
export type TokenDocument = Infer<typeof schema>;

export const token = {
  title: 'Tokens',
  one: 'token',
  purpose: 'Keys for people and machines. Each key is shown once, when it is created.',
  group: 'Access',
  schema,
  writers: 'members',
  template: ['role'],
  serverFields: ['keyId'],
  secret: {
    field: 'key',
    isSealed: false,
    label: 'Key',
    replacing: 'A new key is created and shown once. The old key stops working within 5 seconds.',
  },
  form: [
    { field: 'role', initial: 'member' },
    { field: 'account' },
    { field: 'pool', initial: 'default', role: 'runner' },
    { field: 'expiresAt', days: 90 },
  ],
  deleting: { verb: 'Revoke', effect: 'The key stops working within 5 seconds.' },
  isRestorable: false,
  summary: ({ role, account, pool }) => joined(textIn(role), textIn(account), labelled('pool', pool)),
} as const satisfies KindEntry;
