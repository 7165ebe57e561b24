import { agentIdIn, providerIn, roles } from './identity.ts';
import type { Infer, Schema } from './infer.ts';
import { limits } from './limits.ts';
import type { Kind } from './resource.ts';
import { accountIn, boolean, text, texts, timestampIn } from './scalars.ts';
import { taskIn } from './task.ts';

const open = <const P extends Record<string, Schema>>(properties: P) =>
  ({ type: 'object', properties, additionalProperties: true }) as const;

const setting = { type: 'string', maxLength: 256 } as const;
const amount = { type: 'number', minimum: 0 } as const;
const count = { type: 'integer', minimum: 0 } as const;
const expiry = {
  ...timestampIn,
  type: ['string', 'null'],
  description: 'When it stops working; never, if absent.',
  examples: ['2027-01-31T09:00:00Z'],
} as const;
const rotate = {
  ...boolean,
  description: 'true makes a new secret and ends the old one. It is not stored.',
  examples: [true],
} as const;

const personaDocument = open({
  instructions: {
    ...text,
    description: 'What the agent is told before anything else: the text below the settings.',
    examples: ['You are a careful engineer. Say briefly what you did.'],
  },
  model: {
    ...setting,
    description: 'The model of its agents, unless they are given another.',
    examples: ['claude-opus-4-8'],
  },
  reasoningEffort: {
    ...setting,
    description: 'How long the model may think, in the words of its provider.',
    examples: ['high'],
  },
  serviceTier: { ...setting, description: "The provider's tier of service.", examples: ['priority'] },
  fastMode: {
    ...boolean,
    description: 'Quicker answers at a higher price, where offered.',
    examples: [true],
  },
  tasks: {
    type: 'array',
    items: taskIn,
    maxItems: limits.tasksPerAgent,
    description: 'Tasks that join the checklist of each of its agents.',
    examples: [[{ subject: 'Run the tests', description: 'All of them must pass.' }]],
  },
});
export type PersonaDocument = Infer<typeof personaDocument>;

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
          url: { ...text, description: 'Where the repository is; the git of the runner reaches it.' },
          baseBranch: {
            ...text,
            description: "Where new branches begin; the remote's own choice if absent.",
          },
          path: { ...text, description: 'The folder of the clone in the workspace.' },
        }),
      ],
    },
  },
  environment: {
    ...setting,
    description: 'The environment resource: variables, set-up, allowed hosts.',
    examples: ['default'],
  },
  pool: { ...setting, description: 'The pool whose runners do the work.', examples: ['default'] },
  model: {
    ...setting,
    description: 'The model where neither agent nor persona names one.',
    examples: ['claude-opus-4-8'],
  },
  persona: { ...setting, description: 'The persona of agents that name none.', examples: ['default'] },
  allowCiChanges: {
    type: 'boolean',
    description: "Whether agents may push changes to what the repository's CI system runs. Default false.",
    examples: [false],
  },
  projectSettings: {
    type: 'boolean',
    description:
      "Whether agents read the repository's own settings for them, such as CLAUDE.md. Default true.",
    examples: [true],
  },
});
export type WorkspaceDocument = Infer<typeof workspaceDocument>;

const environmentDocument = open({
  variables: {
    type: 'object',
    description: 'Variables of every process of the agent. Secrets are named, never written here.',
    examples: [{ NODE_ENV: 'test', NPM_TOKEN: { fromRunner: 'NPM_TOKEN' } }],
    additionalProperties: {
      expected: 'a string, or {"fromRunner": "NAME"} to take it from the runner',
      anyOf: [
        { type: 'string' },
        { type: 'object', properties: { fromRunner: text }, required: ['fromRunner'] },
      ],
    },
  },
  setup: {
    ...texts,
    description: 'Shell commands that prepare the clone, in order; the first that fails fails the agent.',
    examples: [['npm ci']],
  },
  allowHosts: {
    ...texts,
    description: 'Hosts that the agent may reach: a name, *.name or name:port.',
    examples: [['api.example.com', '*.example.org']],
  },
});
export type EnvironmentDocument = Infer<typeof environmentDocument>;

const poolDocument = open({
  vmProfile: {
    ...setting,
    description: 'The vm-profile that limits what each run may use.',
    examples: ['default'],
  },
  maxRuns: {
    ...count,
    description: 'How many runs of the tenant live at once on each runner of the pool.',
    examples: [4],
  },
  maxTurnMinutes: {
    type: 'number',
    minimum: 0,
    maximum: limits.mostTurnMinutes,
    expected: `a number of minutes from 0 (no limit) to ${limits.mostTurnMinutes}`,
    description: `The longest turn; ${limits.turnMinutes} if absent. A longer one is interrupted. 0: no limit.`,
    examples: [240],
  },
});
export type PoolDocument = Infer<typeof poolDocument>;

const tokenDocument = open({
  role: {
    type: 'string',
    enum: roles,
    description: "What its holder may do; at most its maker's own role.",
    examples: ['member'],
  },
  ownerProvider: {
    ...providerIn,
    description: "The provider of the account; its maker's, if absent.",
    examples: ['PROVIDER_CODEHOST_OAUTH'],
  },
  account: {
    ...accountIn,
    description: "Whose key it is; its maker's own account, if absent.",
    examples: ['ada'],
  },
  pool: { ...setting, description: 'The pool of a runner; for role runner alone.', examples: ['default'] },
  expiresAt: expiry,
  rotate,
});
export type TokenDocument = Infer<typeof tokenDocument>;

const shareLinkDocument = open({
  agentId: {
    ...agentIdIn,
    description: 'The one agent that the link shows. What is absent is filled in from the caller.',
    examples: [{ agent: ['my-agent'] }],
  },
  expiresAt: expiry,
  rotate,
});
export type ShareLinkDocument = Infer<typeof shareLinkDocument>;

/** The known fields of each kind. Documents are open: nothing is required, and unknown fields are kept as sent. */
export const documents = {
  workspace: workspaceDocument,
  persona: personaDocument,
  environment: environmentDocument,
  profile: open({
    displayName: { ...text, description: 'The name that people see.', examples: ['Release robot'] },
  }),
  'vm-profile': open({
    cpus: { ...amount, description: 'Processors for all processes of a run together.', examples: [2] },
    memoryMb: {
      ...amount,
      description: `Memory of a run, in MiB; ${limits.runMemoryMb} if absent, or three quarters of a smaller machine. 0: no limit.`,
      examples: [4096],
    },
    processes: {
      ...count,
      description: `How many processes and threads a run may have; ${limits.runProcesses} if absent. 0: no limit.`,
      examples: [512],
    },
    scratchMb: {
      ...amount,
      description: `The most that /tmp, /run and /dev/shm of a sandbox may each hold, in MiB; ${limits.runScratchMb} if absent. 0: no limit.`,
      examples: [2048],
    },
  }),
  pool: poolDocument,
  token: tokenDocument,
  'share-link': shareLinkDocument,
  integration: open({
    type: { ...text, description: 'What calls in, such as webhook.', examples: ['webhook'] },
    rotate,
  }),
  'change-request': open({}),
} as const satisfies Record<Kind, Schema>;
