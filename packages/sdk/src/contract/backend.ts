import { tenant } from './identity.ts';
import { boolean, type Infer, reply, text } from './schema.ts';

/** Backends and the settings each one takes. The backend is inferred from the model's name and fixed at spawn. */
export const backends = ['BACKEND_A', 'BACKEND_B'] as const;
export type Backend = (typeof backends)[number];

export const rehearsalModels = { BACKEND_A: 'rehearsal-a', BACKEND_B: 'rehearsal-b' } as const;

const backendPatterns: readonly (readonly [Backend, RegExp])[] = [
  ['BACKEND_A', /^(claude-.+|opus|sonnet|haiku|rehearsal-a)$/],
  ['BACKEND_B', /^(gpt-.+|o[0-9].*|codex-.+|rehearsal-b)$/],
];

/** Where a runner can get the models of a backend. */
export const modelProviders = {
  BACKEND_A: ['anthropic', 'bedrock', 'vertex'],
  BACKEND_B: ['openai', 'azure', 'chatgpt'],
} as const;
export type ModelProvider = (typeof modelProviders)[Backend][number];

/** The model names that the operator added, with their backends. */
export type OwnModels = Readonly<Record<string, Backend>>;

/** How many of the operator's names an error lists. */
const shownNames = 20;

export function modelExpected(own: OwnModels = {}): string {
  const usual =
    'a model of backend A (claude-*, opus, sonnet, haiku, rehearsal-a) or backend B (gpt-*, o<digit>*, codex-*, rehearsal-b)';
  const names = Object.keys(own);
  if (names.length === 0) return usual;
  const more = names.length > shownNames ? ', …' : '';
  return `${usual}, or one of this service's own: ${names.slice(0, shownNames).join(', ')}${more}`;
}

export function backendOfModel(model: string, own: OwnModels = {}): Backend | undefined {
  if (Object.hasOwn(own, model)) return own[model];
  return backendPatterns.find(([, pattern]) => pattern.test(model))?.[0];
}

export const isRehearsalModel = (model: string): boolean =>
  model === rehearsalModels.BACKEND_A || model === rehearsalModels.BACKEND_B;

export const reasoningEfforts: Readonly<Record<Backend, readonly string[]>> = {
  BACKEND_A: ['low', 'medium', 'high', 'xhigh', 'max'],
  BACKEND_B: ['none', 'low', 'medium', 'high', 'xhigh'],
};

export const serviceTiers: Readonly<Record<Backend, readonly string[]>> = {
  BACKEND_A: [],
  BACKEND_B: ['standard', 'fast', 'flex'],
};

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
    }),
  },
  outdatedSecrets: {
    type: 'array',
    description:
      'Secrets and signing keys that were not made with the current service secret. Only for admins, and for operators of all tenants; empty for others.',
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
});
export type Service = Infer<typeof serviceReply>;
