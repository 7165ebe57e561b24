import { boolean, type Infer, list, reply, request, text } from './schema.ts';

/** What a fresh installation needs, in the order in which one does it. */
export const setupSteps = ['provider', 'repository', 'agent', 'sign-in', 'notification'] as const;
/** The agent whose start shows that the repository of its workspace can be read. It counts as no first agent. */
export const repositoryCheck = 'repository-check';
export type SetupStepName = (typeof setupSteps)[number];

export const setupRequest = request('SetupRequest', {
  dismissed: {
    ...boolean,
    description: 'Whether the dashboard no longer shows the list. Absent: unchanged.',
  },
});

const setupStep = reply('SetupStep', {
  name: { type: 'string', enum: setupSteps },
  state: {
    type: 'string',
    enum: ['DONE', 'MISSING', 'FAILING'],
    description: '`FAILING`: it is set up and does not work.',
  },
  text: {
    ...text,
    description:
      'What was found, such as the error of the provider; empty if nothing, or for others than admins.',
  },
});
export type SetupStep = Infer<typeof setupStep>;

export const setupReply = reply('SetupReply', {
  steps: list(setupStep),
  dismissed: { ...boolean, description: 'An admin has dismissed the list.' },
});
export type Setup = Infer<typeof setupReply>;
