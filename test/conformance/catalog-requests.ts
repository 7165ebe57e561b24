import type { Api } from '../support/api.ts';
import { type Document, postResource, type WrittenResource } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';

export interface Entry {
  readonly kind: string;
  readonly name: string;
  readonly payload: string;
  readonly inputFormat: string;
  readonly generation: string;
  readonly builtin: boolean;
}

export interface Page<T> {
  readonly entries: T[];
  readonly nextPageToken: string;
}

export interface Audit {
  readonly generation: string;
  readonly at: string;
  readonly by: string;
  readonly keyId: string;
  readonly action: string;
  readonly updateMask: string;
  readonly justification: string;
  readonly payload: string;
}

/** Writes a resource that must be accepted. */
export const write = async (
  api: Api,
  kind: string,
  name: string,
  document: unknown,
  more: Document = {},
): Promise<WrittenResource> => expectOk(await postResource(api, kind, name, document, more));

export const history = async (api: Api, kind: string, name: string): Promise<Audit[]> =>
  expectOk(await api.get<Page<Audit>>(`/v1/catalog/${kind}/${name}/history`)).entries;

/** Every kind that can be written, with a document in which each known field is set. */
export const everyKind: readonly (readonly [kind: string, document: Document])[] = [
  [
    'persona',
    {
      instructions: 'Look twice.',
      model: 'opus',
      reasoningEffort: 'high',
      serviceTier: '',
      fastMode: true,
      tasks: [
        { id: 'a', subject: 'look', blocks: ['b'] },
        { id: 'b', subject: 'look again' },
      ],
    },
  ],
  [
    'workspace',
    {
      repos: [
        'https://example.org/a.git',
        { url: 'https://example.org/b.git', baseBranch: 'main', path: 'b' },
      ],
      environment: 'default',
      pool: 'default',
      model: 'opus',
      persona: 'planner',
      mcpServers: {
        tracker: { url: 'https://example.org/mcp', headers: { Authorization: { fromSecret: 'token' } } },
        local: { command: 'node', args: ['server.mjs'], env: { TEAM: { fromRunner: 'TEAM' }, MODE: 'fast' } },
      },
      tools: ['web_search', 'sub_agents'],
    },
  ],
  [
    'environment',
    {
      variables: { PLAIN: 'value', SECRET: { fromRunner: 'RUNNER_SECRET' }, TOKEN: { fromSecret: 'token' } },
      setup: ['npm ci'],
      allowHosts: ['registry.example.org'],
    },
  ],
  ['profile', { displayName: 'The reviewing robot' }],
  ['vm-profile', { cpus: 2, memoryMb: 4096, processes: 100 }],
  ['pool', { vmProfile: 'default', maxRuns: 4, maxRunsTotal: 16, maxTurnMinutes: 30 }],
  [
    'policy',
    {
      models: ['claude-*'],
      reasoningEfforts: ['low'],
      serviceTiers: ['flex'],
      fastMode: false,
      personas: ['default'],
      maxTurnMinutes: 30,
      budgetUsd: 5,
    },
  ],
  [
    'budget',
    {
      amountUsd: 5,
      window: 'month',
      zone: 'Europe/Berlin',
      workspace: 'unused',
      account: 'ada',
      warnAt: 0.5,
      unpriced: 'allow',
    },
  ],
  [
    'token',
    { role: 'viewer', ownerProvider: 'PROVIDER_IDP_OIDC', account: 'ann', expiresAt: '2099-01-01T00:00:00Z' },
  ],
  ['share-link', { agentId: { agent: ['somebody'] }, expiresAt: '2099-01-01T00:00:00Z' }],
  [
    'schedule',
    {
      cron: '0 7 * * 1-5',
      zone: 'Europe/Berlin',
      agentId: { agent: ['somebody'] },
      message: 'Look at the build.',
      overlap: 'skip',
      missed: 'all',
      jitterSeconds: 60,
      startsAt: '2098-01-01T00:00:00Z',
      endsAt: '2099-01-01T00:00:00Z',
      paused: false,
    },
  ],
  ['integration', { type: 'codehost' }],
  [
    'notification',
    {
      type: 'webhook',
      url: 'https://example.com/hook',
      to: [],
      events: ['agent.needs_input'],
      workspace: 'web',
      account: 'codehost_oauth/ada',
      labels: { team: 'web' },
      quietHours: { from: '22:00', to: '07:00', zone: 'Europe/Berlin' },
      paused: false,
    },
  ],
  [
    'trigger',
    {
      agentId: { agent: ['somebody'] },
      message: '{{body.a}} {{header.x}} {{query.x}}',
      auth: 'hmac-sha256',
      signatureHeader: 'x-signature',
      filter: [{ path: 'body.a', equals: 'b' }],
      dedupe: 'body.id',
      maxPerHour: 5,
      paused: true,
    },
  ],
  ['secret', {}],
];
