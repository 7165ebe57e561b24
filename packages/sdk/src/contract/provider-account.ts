import { boolean, type Infer, reply, timestampOrNull } from './schema.ts';

export const providerAccountStates = ['FREE', 'IN_USE', 'PAUSED'] as const;

/** The name of an account at a provider. */
export const providerAccountName = {
  type: 'string',
  maxLength: 128,
  description: "`provider/name`; the name is `default` for the account of the runner's own variables.",
} as const;

export const providerAccountFields = {
  account: providerAccountName,
  state: {
    type: 'string',
    enum: providerAccountStates,
    description: 'PAUSED: at a limit, without credit or refused. Other accounts of its provider are used.',
  },
  runs: { type: 'integer', minimum: 0, maximum: 1e6, description: 'How many live runs use it.' },
  pausedUntil: {
    ...timestampOrNull,
    description: 'Null if it is not paused, or until its credentials are changed.',
  },
  accepted: {
    ...boolean,
    description: 'The provider has accepted its credentials since the runner started.',
  },
  error: { type: 'string', maxLength: 1024, description: 'Why it is paused; otherwise empty.' },
} as const;

/** An account of a runner at a provider, as the runner last reported it. */
export const providerAccount = reply('ProviderAccount', providerAccountFields);
export type ProviderAccount = Infer<typeof providerAccount>;
