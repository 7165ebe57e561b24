import { limits } from '../limits.ts';
import { boolean, type Infer, text, texts } from '../schema.ts';
import { field, fromSecret, type KindEntry, nameOf, open, rotate, setting } from './kind.ts';
import { textIn } from './summary.ts';

const rounds = { type: 'integer', minimum: 0, maximum: 1000 } as const;

/** What an integration may do with the change requests of agents. */
export const changeRequestModes = ['manual', 'auto', 'draft', 'off'] as const;

const schema = open({
  type: field(text, 'The type of the code host: github, gitlab or forgejo (which covers Gitea).', 'github'),
  url: field(
    {
      type: 'string',
      maxLength: 2048,
      pattern: '^$|^https?://[^\\s/?#@]+(/[^\\s?#@]*)?$',
      expected: 'an address such as https://git.example.com, without a user name or a password',
    },
    'The address of the host. Default: https://github.com or https://gitlab.com.',
    'https://git.example.com',
  ),
  token: field(fromSecret, 'The secret with an access token of the account that agents act as.', {
    fromSecret: 'github-token',
  }),
  appId: field({ type: ['string', 'integer'] }, 'The id of a GitHub App, instead of a token.', '123456'),
  privateKey: field(fromSecret, 'The secret with the private key of the GitHub App.', {
    fromSecret: 'github-app-key',
  }),
  webhookSecret: field(
    fromSecret,
    'For hosts that make the signing key themselves: the secret with that key.',
    { fromSecret: 'gitlab-signing-token' },
  ),
  repos: field(
    { ...texts, maxItems: 1000 },
    'Full paths of repositories; * matches one name, ** everything below.',
    ['team/*'],
  ),
  workspace: field(
    nameOf('workspace'),
    'The workspace of agents that are triggered; otherwise one that lists the repository.',
    'default',
  ),
  persona: field(nameOf('persona'), 'The persona of agents that are triggered.', 'default'),
  profile: field(setting, "The service profile that owns them; by default the integration's name.", 'bot'),
  changeRequests: field(
    { type: 'string', enum: changeRequestModes },
    'Whether change requests are opened only when asked for (manual, the default), when an agent has pushed (auto, draft), or never (off).',
    'manual',
  ),
  triggers: field(
    open({ label: setting, mention: setting, assigned: boolean }),
    'What spawns an agent: a label, a mention of a name, an assignment to its account.',
    { label: 'muster', mention: '@muster', assigned: true },
  ),
  minimumPermission: field(
    { type: 'string', enum: ['read', 'write', 'admin'] },
    'Ignore comments of people with less than this permission in the repository. Default write.',
    'write',
  ),
  bots: field({ ...texts, maxItems: 100 }, 'The ids of bots whose comments are read too.', ['41898282']),
  rounds: field(rounds, 'Automatic rounds per change request before a person has to write. Default 10.', 10),
  checks: field(
    open({ report: boolean, rounds, ignore: { ...texts, maxItems: 100 } }),
    'Whether failed checks are reported to the agent, how often in a row, and which are ignored.',
    { report: true, rounds: 3, ignore: ['coverage'] },
  ),
  onMerged: field(
    { type: 'string', enum: ['inform', 'finish', 'nothing'] },
    'What happens to the agent when its change request is merged. Default inform.',
    'inform',
  ),
  paused: field(boolean, 'Pause: record deliveries without acting on them.', false),
  rotate,
});
export type IntegrationDocument = Infer<typeof schema>;

export const integration = {
  title: 'Integrations',
  one: 'integration',
  purpose: 'Code hosts: GitHub, GitLab and Forgejo, each with a webhook and its own signing key.',
  group: 'Access',
  schema,
  writers: 'admins',
  template: ['type'],
  serverFields: ['webhookUrl'],
  secret: {
    field: 'signingKey',
    isSealed: false,
    label: 'Signing key',
    replacing: 'A new signing key is created and shown once. The old key stops working within 5 seconds.',
  },
  form: [{ field: 'type', initial: 'github' }],
  deleting: { verb: 'Delete', effect: 'Requests that are signed with its key are refused.' },
  columns: { WEBHOOK: 'webhookUrl' },
  mostBytes: limits.integrationBytesPerTenant,
  summary: ({ type }) => textIn(type),
} as const satisfies KindEntry;
