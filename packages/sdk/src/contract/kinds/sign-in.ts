import { limits } from '../limits.ts';
import { memberRoles } from '../member.ts';
import { accountIn, boolean, type Infer, texts } from '../schema.ts';
import { field, fromSecret, type KindEntry, open, setting } from './kind.ts';
import { counted, joined, textIn } from './summary.ts';

const url = {
  type: 'string',
  maxLength: 2048,
  pattern: '^$|^https?://[^\\s/?#@]+(/[^\\s?#@]*)?$',
  expected: 'an address such as https://id.example.com, without a user name, a password or a query',
} as const;

/** Whom a rule matches: a person for whom all of its fields are true. */
const person = {
  domain: setting,
  group: setting,
  org: setting,
  team: setting,
  account: setting,
  subject: setting,
} as const;

/** The fields of a rule, beside its role. */
export const ruleFields = Object.keys(person) as readonly (keyof typeof person)[];

const ruleExpected =
  'one of domain, group, org, team, account and subject; of several, all must be true of the person';

const schema = open({
  type: field(
    { type: 'string', enum: ['oidc', 'github'] },
    'The protocol of the provider: OpenID Connect (Google, Entra, Okta, Keycloak, GitLab and others), or GitHub, which has its own. Default oidc.',
    'oidc',
  ),
  title: field({ ...setting, maxLength: 64 }, 'The text of the button. Default: the name.', 'Google'),
  issuer: field(
    url,
    'Of OpenID Connect: the address of the provider, exactly as it names itself. Its configuration is read from `/.well-known/openid-configuration` below it.',
    'https://accounts.google.com',
  ),
  url: field(
    url,
    'Of GitHub: the address of an Enterprise Server. Default: https://github.com.',
    'https://github.example.com',
  ),
  clientId: field(
    { type: 'string', maxLength: 512 },
    'The id that the provider gave to Muster.',
    'muster.apps.example.com',
  ),
  clientSecret: field(fromSecret, 'The secret with the client secret that the provider gave to Muster.', {
    fromSecret: 'google-client-secret',
  }),
  clientAuthentication: field(
    { type: 'string', enum: ['basic', 'post'] },
    'Whether the client secret is sent in the Authorization header or in the body. Default: what the provider says it accepts.',
    'basic',
  ),
  scopes: field(
    { ...texts, items: setting, maxItems: 20 },
    'What else is asked for, beside openid, profile and email.',
    ['groups'],
  ),
  groupsClaim: field(
    setting,
    'The claim with the groups of a person: a list, or a text with commas. A path such as realm_access.roles leads into objects. Default groups.',
    'groups',
  ),
  allow: field(
    { type: 'array', items: { ...open(person), expected: ruleExpected }, maxItems: limits.rulesPerSignIn },
    'Who may sign in: anybody for whom one of these is true. Absent: everybody who gets a role.',
    [{ domain: 'example.com' }],
  ),
  roles: field(
    {
      type: 'array',
      items: {
        ...open({ ...person, role: { type: 'string', enum: memberRoles } }),
        expected: `a role, and ${ruleExpected}`,
      },
      maxItems: limits.rulesPerSignIn,
    },
    'The role of a person: the first of these that is true.',
    [{ group: 'platform', role: 'admin' }],
  ),
  defaultRole: field(
    { type: 'string', enum: ['none', 'viewer', 'member'] },
    'The role of a person for whom none of them is true; none refuses. Default none.',
    'none',
  ),
  accounts: field(
    {
      type: 'array',
      items: {
        ...open({ subject: setting, account: accountIn }),
        required: ['subject', 'account'],
        expected: 'the id of a person at the provider as `subject`, and a name as `account`',
      },
      maxItems: limits.rulesPerSignIn,
    },
    'Gives persons an account name that keys or agents use already. Otherwise such a name is for nobody who signs in.',
    [{ subject: '583231', account: 'ada' }],
  ),
  paused: field(boolean, 'true: nobody can sign in with it. Sessions that are open stay open.', false),
});
export type SignInDocument = Infer<typeof schema>;

export const signIn = {
  title: 'Sign-in',
  one: 'sign-in',
  purpose: 'Providers that people sign in with: OpenID Connect or GitHub, who may, and which role they get.',
  group: 'Access',
  schema,
  writers: 'admins',
  template: ['type', 'title', 'issuer', 'clientId', 'clientSecret', 'allow', 'roles', 'defaultRole'],
  serverFields: ['redirectUri'],
  deleting: {
    verb: 'Delete',
    effect: 'Everybody who signed in with it is signed out, and their names stay reserved.',
  },
  columns: { TYPE: 'type', PAUSED: 'paused' },
  mostDocuments: limits.signInsPerTenant,
  summary: ({ type, issuer, allow, roles, paused }) =>
    joined(
      textIn(type),
      textIn(issuer),
      Array.isArray(allow) ? counted(allow.length, 'allow rule') : '',
      Array.isArray(roles) ? counted(roles.length, 'role rule') : '',
      paused === true ? 'paused' : '',
    ),
} as const satisfies KindEntry;
