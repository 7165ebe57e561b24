import { tenant } from './identity.ts';
import { providerAccount } from './provider-account.ts';
import { boolean, type Infer, int64, list, reply, text } from './schema.ts';

/** From whom a runner can get models. */
export const modelProviders = ['anthropic', 'bedrock', 'vertex', 'openai', 'azure', 'chatgpt'] as const;
export type ModelProvider = (typeof modelProviders)[number];

interface BackendFacts {
  /** In data for programs. */
  readonly id: string;
  readonly title: string;
  /** The names of its models, and how an error lists them. */
  readonly models: RegExp;
  readonly modelNames: string;
  /** Model names that are short enough to be suggested. */
  readonly shortNames: readonly string[];
  readonly defaultModel: string;
  readonly rehearsalModel: string;
  readonly reasoningEfforts: readonly string[];
  readonly serviceTiers: readonly string[];
  /** Where a runner can get its models. */
  readonly providers: readonly ModelProvider[];
  /** The first of these with an account serves the models that the operator's table assigns to no provider. */
  readonly usualProviders: readonly ModelProvider[];
  /** The variable of the usual key. */
  readonly key: string;
}

/**
 * A backend runs agents; it follows from the model's name and is fixed at spawn. How its program is found and driven is in
 * the service, in its folder below `harness/` and in `runner/harnesses.ts`.
 */
const table = {
  BACKEND_A: {
    id: 'claudeCode',
    title: 'Claude Code',
    models: /^(claude-.+|opus|sonnet|haiku)$/,
    modelNames: 'claude-*, opus, sonnet, haiku',
    shortNames: ['opus', 'sonnet', 'haiku'],
    defaultModel: 'claude-opus-4-8',
    rehearsalModel: 'rehearsal-a',
    reasoningEfforts: ['low', 'medium', 'high', 'xhigh', 'max'],
    serviceTiers: [],
    providers: ['anthropic', 'bedrock', 'vertex'],
    // As Claude Code itself chooses.
    usualProviders: ['bedrock', 'vertex', 'anthropic'],
    key: 'ANTHROPIC_API_KEY',
  },
  BACKEND_B: {
    id: 'codex',
    title: 'Codex',
    models: /^(gpt-.+|o[0-9].*|codex-.+)$/,
    modelNames: 'gpt-*, o<digit>*, codex-*',
    shortNames: [],
    defaultModel: 'gpt-5.5',
    rehearsalModel: 'rehearsal-b',
    reasoningEfforts: ['none', 'low', 'medium', 'high', 'xhigh'],
    serviceTiers: ['standard', 'fast', 'flex'],
    providers: ['openai', 'azure', 'chatgpt'],
    usualProviders: ['azure', 'openai', 'chatgpt'],
    key: 'OPENAI_API_KEY',
  },
} as const satisfies Record<string, BackendFacts>;

export type Backend = keyof typeof table;
export const backendFacts: Readonly<Record<Backend, BackendFacts>> = table;
export const backends = Object.keys(table) as readonly Backend[];
export const rehearsalModels = backends.map((backend) => backendFacts[backend].rehearsalModel);

/** The model names that the operator added, with their backends. */
export type OwnModels = Readonly<Record<string, Backend>>;

/** How many of the operator's names an error lists. */
const shownNames = 20;

export function modelExpected(own: OwnModels = {}): string {
  const each = Object.values(backendFacts).map(
    ({ title, modelNames, rehearsalModel }) => `${title} (${modelNames}, ${rehearsalModel})`,
  );
  const usual = `a model of ${each.join(' or ')}`;
  const names = Object.keys(own);
  if (names.length === 0) return usual;
  const more = names.length > shownNames ? ', …' : '';
  return `${usual}, or one of this service's own: ${names.slice(0, shownNames).join(', ')}${more}`;
}

export function backendOfModel(model: string, own: OwnModels = {}): Backend | undefined {
  if (Object.hasOwn(own, model)) return own[model];
  return backends.find((backend) => {
    const { models, rehearsalModel } = backendFacts[backend];
    return model === rehearsalModel || models.test(model);
  });
}

export const isRehearsalModel = (model: string): boolean => rehearsalModels.includes(model);

const backend = { type: 'string', enum: backends } as const;

/** The backends and runners that serve the caller's tenant right now. */
export const serviceReply = reply('Service', {
  backends: {
    type: 'array',
    items: reply('BackendReadiness', {
      backend,
      ready: { ...boolean, description: 'A live runner has its harness and a provider key.' },
      rehearsed: { ...boolean, description: 'A live runner rehearses its models, without a provider.' },
    }),
  },
  models: {
    type: 'array',
    description: 'The model names that the operator of the service added with MUSTER_MODELS.',
    items: reply('OwnModel', {
      model: { ...text, description: 'The name that agents use.' },
      backend,
      provider: { ...text, description: 'Where the runner gets it: bedrock, vertex, azure and so on.' },
    }),
  },
  runners: {
    type: 'array',
    items: reply('LiveRunner', {
      name: text,
      pool: text,
      backends: {
        type: 'array',
        items: backend,
        description: 'The backends that it has, not only rehearses.',
      },
      rehearses: { ...boolean, description: 'The runner has no provider key and rehearses every model.' },
      sandboxed: { ...boolean, description: 'The runner runs agents in a sandbox.' },
      diskFull: { ...boolean, description: 'The runner starts no runs, because its disk is almost full.' },
      draining: {
        ...boolean,
        description: 'The runner takes no more runs, and ends with those that it has.',
      },
      accounts: {
        ...list(providerAccount),
        description:
          'Its accounts at providers, in the order in which they are used. Only for admins of the tenant of the runner; empty for others.',
      },
      version: { ...text, description: 'Empty if the runner does not report one.' },
      versionWarning: {
        ...text,
        description:
          'What to do, if runners of this version are not supported by this service. Otherwise empty.',
      },
    }),
  },
  outdatedSecrets: {
    type: 'array',
    description:
      'Secrets and signing keys that were not made with the current service secret, at most 1,000. Only for admins, and for operators of all tenants; empty for others.',
    items: reply('OutdatedSecret', {
      tenant,
      kind: text,
      name: text,
      works: {
        ...boolean,
        description: 'Through the previous service secret. Otherwise it must be set again.',
      },
    }),
  },
  quotas: {
    type: 'array',
    description: "What the caller's tenant stores, and what it may store, in bytes.",
    items: reply('Quota', {
      quota: { ...text, description: 'storage, checkpoints or attachments.' },
      bytes: { ...int64, description: 'Of all accounts of the tenant.' },
      limit: int64,
      accountBytes: {
        ...int64,
        description: "Of the caller's account; 0 while the tenant uses less than half of the limit.",
      },
      accountLimit: {
        ...int64,
        description: 'What one account may use: all, or half if the tenant has others.',
      },
    }),
  },
  outdatedSecretCount: {
    type: 'integer',
    description: 'How many there are, also of those that are not listed.',
  },
});
export type Service = Infer<typeof serviceReply>;
