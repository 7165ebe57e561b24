import { agentIdIn, providerIn, roles } from './identity.ts';
import { limits } from './limits.ts';
import type { Kind } from './resource.ts';
import { accountIn, boolean, type Infer, type Schema, text, texts, timestampIn } from './schema.ts';
import { taskIn } from './task.ts';

const open = <const P extends Record<string, Schema>>(properties: P) =>
  ({ type: 'object', properties, additionalProperties: true }) as const;

const setting = { type: 'string', maxLength: 256 } as const;
const amount = { type: 'number', minimum: 0 } as const;
const count = { type: 'integer', minimum: 0 } as const;
const expiry = {
  ...timestampIn,
  type: ['string', 'null'],
  description: 'When it expires; never, if absent.',
  examples: ['2027-01-31T09:00:00Z'],
} as const;
const rotate = {
  ...boolean,
  description: 'true creates a new secret and revokes the old one. This field is not stored.',
  examples: [true],
} as const;

const personaDocument = open({
  instructions: {
    ...text,
    description: 'The instructions for the agent: the text below the settings.',
    examples: ['You are a careful engineer. Say briefly what you did.'],
  },
  model: {
    ...setting,
    description: 'The default model of its agents.',
    examples: ['claude-opus-4-8'],
  },
  reasoningEffort: {
    ...setting,
    description: 'The reasoning effort of the model, such as low or high.',
    examples: ['high'],
  },
  serviceTier: { ...setting, description: "The provider's service tier.", examples: ['priority'] },
  fastMode: {
    ...boolean,
    description: 'Faster answers at a higher price, where the provider offers it.',
    examples: [true],
  },
  tasks: {
    type: 'array',
    items: taskIn,
    maxItems: limits.tasksPerAgent,
    description: 'Tasks that are added to the checklist of each of its agents.',
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
  environment: {
    ...setting,
    description: 'The environment resource: variables, set-up, allowed hosts.',
    examples: ['default'],
  },
  pool: { ...setting, description: 'The pool whose runners run the agents.', examples: ['default'] },
  model: {
    ...setting,
    description: 'The model, if neither the agent nor its persona sets one.',
    examples: ['claude-opus-4-8'],
  },
  persona: { ...setting, description: 'The default persona.', examples: ['default'] },
  allowCiChanges: {
    type: 'boolean',
    description: "Whether agents may push changes to the repository's CI definitions. Default false.",
    examples: [false],
  },
  projectSettings: {
    type: 'boolean',
    description: "Whether agents read the repository's agent settings, such as CLAUDE.md. Default true.",
    examples: [true],
  },
});
export type WorkspaceDocument = Infer<typeof workspaceDocument>;

const environmentDocument = open({
  variables: {
    type: 'object',
    description:
      'Environment variables of the agent. For secrets, write only the name of a variable of the runner.',
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
    description: 'Shell commands that prepare the clone, in order. If one fails, the run fails.',
    examples: [['npm ci']],
  },
  allowHosts: {
    ...texts,
    description: 'Hosts that the agent may connect to: name, *.name or name:port.',
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
    description: 'How many runs of the tenant each runner of the pool runs at the same time.',
    examples: [4],
  },
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
  role: {
    type: 'string',
    enum: roles,
    description: "The role of the key; at most the creator's own role.",
    examples: ['member'],
  },
  ownerProvider: {
    ...providerIn,
    description: "The provider of the account; the creator's, if absent.",
    examples: ['PROVIDER_CODEHOST_OAUTH'],
  },
  account: {
    ...accountIn,
    description: "The account of the key; the creator's, if absent.",
    examples: ['ada'],
  },
  pool: { ...setting, description: 'The pool of a runner; only for role runner.', examples: ['default'] },
  expiresAt: expiry,
  rotate,
});
export type TokenDocument = Infer<typeof tokenDocument>;

const shareLinkDocument = open({
  agentId: {
    ...agentIdIn,
    description: 'The agent that the link shows. Missing fields are filled in from the caller.',
    examples: [{ agent: ['my-agent'] }],
  },
  expiresAt: expiry,
  rotate,
});
export type ShareLinkDocument = Infer<typeof shareLinkDocument>;

/** The known fields of each kind. No field is required, and unknown fields are kept. */
export const documents = {
  workspace: workspaceDocument,
  persona: personaDocument,
  environment: environmentDocument,
  profile: open({
    displayName: { ...text, description: 'The display name.', examples: ['Release robot'] },
  }),
  'vm-profile': open({
    cpus: {
      ...amount,
      description: 'Number of processors for all processes of a run together.',
      examples: [2],
    },
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
      description: `The size of /tmp, /run and /dev/shm of a sandbox, each, in MiB; ${limits.runScratchMb} if absent. 0: no limit.`,
      examples: [2048],
    },
  }),
  pool: poolDocument,
  token: tokenDocument,
  'share-link': shareLinkDocument,
  integration: open({
    type: { ...text, description: 'The type of the caller, such as webhook.', examples: ['webhook'] },
    rotate,
  }),
  'change-request': open({}),
} as const satisfies Record<Kind, Schema>;
