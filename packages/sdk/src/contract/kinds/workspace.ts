import { limits } from '../limits.ts';
import { boolean, type Infer, list, text } from '../schema.ts';
import { field, given, type KindEntry, nameOf, open, setting } from './kind.ts';
import { counted, joined, labelled, repositoryNames } from './summary.ts';

export type GivenText = Infer<typeof given>;

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

const schema = open({
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
  environment: field(
    nameOf('environment'),
    'The environment resource: variables, set-up, allowed hosts.',
    'default',
  ),
  pool: field(nameOf('pool'), 'The pool whose runners run the agents.', 'default'),
  model: field(setting, 'The model, if neither the agent nor its persona sets one.', 'claude-opus-4-8'),
  persona: field(nameOf('persona'), 'The default persona.', 'default'),
  policy: field(
    nameOf('policy'),
    'A policy that holds in addition to the policy “default” of the tenant.',
    'default',
  ),
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
export type WorkspaceDocument = Infer<typeof schema>;

export const workspace = {
  title: 'Workspaces',
  one: 'workspace',
  purpose: 'Repositories for agents, with their environment, pool, persona and model.',
  group: 'Work',
  schema,
  writers: 'admins',
  builtins: { default: { repos: [], environment: 'default', pool: 'default' } },
  template: ['repos', 'environment', 'pool'],
  summary: ({ repos, model, persona, mcpServers }) =>
    joined(
      repositoryNames(repos),
      labelled('model', model),
      labelled('persona', persona),
      counted(mcpServers, 'MCP server'),
    ),
} as const satisfies KindEntry;
