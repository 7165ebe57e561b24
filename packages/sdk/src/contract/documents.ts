import { agentIdIn, providerIn, roles } from './identity.ts';
import { limits } from './limits.ts';
import type { Kind } from './resource.ts';
import { accountIn, boolean, type Infer, list, type Schema, text, texts, timestampIn } from './schema.ts';
import { taskIn } from './task.ts';

const open = <const P extends Record<string, Schema>>(properties: P) =>
  ({ type: 'object', properties, additionalProperties: true }) as const;

/** A field with its description and an example, which the dashboard shows. */
const field = <const S extends Schema, const E>(schema: S, description: string, example: E) => ({
  ...schema,
  description,
  examples: [example],
});

const setting = { type: 'string', maxLength: 256 } as const;
const amount = { type: 'number', minimum: 0 } as const;
const count = { type: 'integer', minimum: 0 } as const;
const runs = { type: 'integer', minimum: 0, maximum: 1_000_000 } as const;
const timeOrNull = { ...timestampIn, type: ['string', 'null'] } as const;
const expiry = field(timeOrNull, 'When it expires; never, if absent.', '2027-01-31T09:00:00Z');
const rotate = field(
  boolean,
  'true creates a new secret and revokes the old one. This field is not stored.',
  true,
);

/** A text, or where it is taken from. */
const given = {
  expected:
    'a string, {"fromSecret": "NAME"} to take it from a secret, or {"fromRunner": "NAME"} to take it from the runner',
  anyOf: [
    { type: 'string' },
    { type: 'object', properties: { fromSecret: text }, required: ['fromSecret'] },
    { type: 'object', properties: { fromRunner: text }, required: ['fromRunner'] },
  ],
} as const;
export type GivenText = Infer<typeof given>;

const personaDocument = open({
  instructions: field(
    text,
    'The instructions for the agent: the text below the settings.',
    'You are a careful engineer. Say briefly what you did.',
  ),
  model: field(setting, 'The default model of its agents.', 'claude-opus-4-8'),
  reasoningEffort: field(setting, 'The reasoning effort of the model, such as low or high.', 'high'),
  serviceTier: field(setting, "The provider's service tier.", 'priority'),
  fastMode: field(boolean, 'Faster answers at a higher price, where the provider offers it.', true),
  tasks: field(
    { ...list(taskIn), maxItems: limits.tasksPerAgent },
    'Tasks that are added to the checklist of each of its agents.',
    [{ subject: 'Run the tests', description: 'All of them must pass.' }],
  ),
});
export type PersonaDocument = Infer<typeof personaDocument>;

/** Tools of the harnesses that are off unless a workspace allows them. */
export const workspaceTools = ['web_search', 'web_fetch', 'sub_agents'] as const;
export type WorkspaceTool = (typeof workspaceTools)[number];

const mcpText = { type: 'string', maxLength: limits.mcpTextLength } as const;
const mcpEntries = {
  type: 'object',
  maxProperties: limits.mcpServerEntries,
  additionalProperties: given,
} as const;

const mcpServer = {
  type: 'object',
  properties: {
    url: { ...mcpText, description: 'The address of a remote server, which speaks Streamable HTTP.' },
    headers: {
      ...mcpEntries,
      description:
        'Headers that the gateway adds to requests to the remote server. The agent does not get them.',
    },
    command: {
      ...mcpText,
      minLength: 1,
      description: 'The program of a local server, which runs in the sandbox of the agent.',
    },
    args: {
      ...list(mcpText),
      maxItems: limits.mcpServerEntries,
      description: 'The arguments of the program.',
    },
    env: { ...mcpEntries, description: 'Environment variables of the program. The agent can read them.' },
  },
} as const;
export type McpServerDocument = Infer<typeof mcpServer>;

const workspaceDocument = open({
  repos: {
    type: 'array',
    maxItems: 100,
    description: 'The repositories that are cloned for each agent.',
    examples: [[{ url: 'https://example.com/team/project.git', baseBranch: 'main' }]],
    items: {
      expected: 'a URL, or an object with url, baseBranch and path',
      anyOf: [
        { type: 'string' },
        open({
          url: { ...text, description: 'The URL of the repository; the git of the runner must reach it.' },
          baseBranch: {
            ...text,
            description: "The branch that new branches start from; the remote's default if absent.",
          },
          path: { ...text, description: 'The folder of the clone in the workspace.' },
        }),
      ],
    },
  },
  environment: field(setting, 'The environment resource: variables, set-up, allowed hosts.', 'default'),
  pool: field(setting, 'The pool whose runners run the agents.', 'default'),
  model: field(setting, 'The model, if neither the agent nor its persona sets one.', 'claude-opus-4-8'),
  persona: field(setting, 'The default persona.', 'default'),
  allowCiChanges: field(
    boolean,
    "Whether agents may push changes to the repository's CI definitions. Default false.",
    false,
  ),
  projectSettings: field(
    boolean,
    "Whether agents read the repository's agent settings, such as CLAUDE.md. Default true.",
    true,
  ),
  mcpServers: {
    type: 'object',
    maxProperties: limits.mcpServersPerWorkspace,
    description:
      'MCP servers of the team whose tools the agents get, by name. A remote one has url and headers, a local one command, args and env.',
    examples: [
      {
        tracker: {
          url: 'https://mcp.example.com/mcp',
          headers: { Authorization: { fromSecret: 'tracker-authorization' } },
        },
      },
    ],
    additionalProperties: mcpServer,
  },
  tools: {
    type: 'array',
    maxItems: 16,
    items: { type: 'string', enum: workspaceTools },
    description: `Tools of the harness that are off by default: ${workspaceTools.join(', ')}.`,
    examples: [['web_search']],
  },
});
export type WorkspaceDocument = Infer<typeof workspaceDocument>;

const environmentDocument = open({
  variables: {
    type: 'object',
    description:
      'Environment variables of the agent. For secrets, write only the name of a secret, or of a variable of the runner.',
    examples: [{ NODE_ENV: 'test', NPM_TOKEN: { fromSecret: 'npm-token' } }],
    additionalProperties: given,
  },
  setup: field(
    texts,
    'Shell commands that prepare the clone, in order. If one fails, the run fails. A runner runs them once at the base branch, and copies the result for each agent.',
    ['npm ci'],
  ),
  setupEach: field(
    texts,
    'Shell commands that run for each agent after `setup`, at its own branch. If one fails, the run fails.',
    ['npm run build'],
  ),
  allowHosts: field(texts, 'Hosts that the agent may connect to: name, *.name or name:port.', [
    'api.example.com',
    '*.example.org',
  ]),
});
export type EnvironmentDocument = Infer<typeof environmentDocument>;

const poolDocument = open({
  vmProfile: field(setting, 'The vm-profile that limits what each run may use.', 'default'),
  maxRuns: field(runs, 'How many runs of the tenant each runner of the pool runs at the same time.', 4),
  maxRunsTotal: field(
    runs,
    'How many runs of the tenant all runners of the pool together run at the same time.',
    16,
  ),
  maxTurnMinutes: {
    type: 'number',
    minimum: 0,
    maximum: limits.mostTurnMinutes,
    expected: `a number of minutes from 0 (no limit) to ${limits.mostTurnMinutes}`,
    description: `The longest turn in minutes; ${limits.turnMinutes} if absent. A longer turn is interrupted. 0: no limit.`,
    examples: [240],
  },
});
export type PoolDocument = Infer<typeof poolDocument>;

const tokenDocument = open({
  role: field(
    { type: 'string', enum: roles },
    "The role of the key; at most the creator's own role.",
    'member',
  ),
  ownerProvider: field(
    providerIn,
    "The provider of the account; the creator's, if absent.",
    'PROVIDER_CODEHOST_OAUTH',
  ),
  account: field(accountIn, "The account of the key; the creator's, if absent.", 'ada'),
  pool: field(setting, 'The pool of a runner; only for role runner.', 'default'),
  expiresAt: expiry,
  rotate,
});
export type TokenDocument = Infer<typeof tokenDocument>;

const shareLinkDocument = open({
  agentId: field(agentIdIn, 'The agent that the link shows. Missing fields are filled in from the caller.', {
    agent: ['my-agent'],
  }),
  expiresAt: expiry,
  rotate,
});
export type ShareLinkDocument = Infer<typeof shareLinkDocument>;

const fromSecret = {
  type: 'object',
  properties: { fromSecret: text },
  required: ['fromSecret'],
  expected: '{"fromSecret": "NAME"} with the name of a secret',
} as const;
const rounds = { type: 'integer', minimum: 0, maximum: 1000 } as const;

/** What an integration may do with the change requests of agents. */
export const changeRequestModes = ['manual', 'auto', 'draft', 'off'] as const;

const integrationDocument = open({
  type: field(text, 'The type of the code host: github, gitlab or forgejo (which covers Gitea).', 'github'),
  url: field(
    text,
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
    'The secret with the key that the host signs its deliveries with, if the host made it.',
    { fromSecret: 'gitlab-signing-token' },
  ),
  repos: field(
    { ...texts, maxItems: 1000 },
    'The repositories by their full paths; `*` is any name, `**` at the end any rest.',
    ['team/*'],
  ),
  workspace: field(
    setting,
    'The workspace of agents that are triggered; otherwise one that lists the repository.',
    'default',
  ),
  persona: field(setting, 'The persona of agents that are triggered.', 'default'),
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
    'The permission in the repository that people need to be heard. Default write.',
    'write',
  ),
  bots: field({ ...texts, maxItems: 100 }, 'The ids of bots that are heard as well.', ['41898282']),
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
  paused: field(
    boolean,
    'true: deliveries are recorded as IGNORED, and nothing is told to agents or posted.',
    false,
  ),
  rotate,
});
export type IntegrationDocument = Infer<typeof integrationDocument>;

/** The known fields of each kind. No field is required, and unknown fields are kept. */
export const documents = {
  workspace: workspaceDocument,
  persona: personaDocument,
  environment: environmentDocument,
  profile: open({
    displayName: field(text, 'The display name.', 'Release robot'),
  }),
  'vm-profile': open({
    cpus: field(amount, 'Number of processors for all processes of a run together.', 2),
    memoryMb: field(
      amount,
      `Memory of a run, in MiB; ${limits.runMemoryMb} if absent, or three quarters of a smaller machine. 0: no limit.`,
      4096,
    ),
    processes: field(
      count,
      `How many processes and threads a run may have; ${limits.runProcesses} if absent. 0: no limit.`,
      512,
    ),
    scratchMb: field(
      amount,
      `The size of /tmp, /run and /dev/shm of a sandbox, each, in MiB; ${limits.runScratchMb} if absent. 0: no limit.`,
      2048,
    ),
  }),
  pool: poolDocument,
  token: tokenDocument,
  'share-link': shareLinkDocument,
  secret: open({
    value: field(
      text,
      `The value, up to ${limits.secretValueBytes} bytes. It is stored encrypted and never shown. A write without it keeps the stored value.`,
      'npm_0123456789',
    ),
  }),
  integration: integrationDocument,
  'change-request': open({}),
} as const satisfies Record<Kind, Schema>;
