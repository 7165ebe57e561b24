import type { Setup, SetupStep } from '@muster/sdk';
import type { SetupStepName } from '@muster/sdk/contract';
import type { Tone } from '../../parts/model/tone.ts';

/** The steps to the first agent that works in a repository, in this order. */
export const firstSteps = ['provider', 'repository', 'agent'] as const satisfies readonly SetupStepName[];
export type FirstStep = (typeof firstSteps)[number];

type Texts = readonly [title: string, why: string];

export const firstTexts: Readonly<Record<FirstStep, Texts>> = {
  provider: ['Provider key', 'Without a key, agents are rehearsals: scripted, without a model.'],
  repository: ['Repository', 'A workspace names the repositories that its agents work in.'],
  agent: ['First agent', 'It gets a clone and a branch of its repository, and you watch it work.'],
};

type LaterStep = Exclude<SetupStepName, FirstStep>;

/** What a team sets up when the first agent works, and where. */
export const laterTexts: Readonly<Record<LaterStep, readonly [...Texts, href: string, link: string]>> = {
  'sign-in': [
    'Sign-in',
    'Until people can sign in, everyone needs a key.',
    '/catalog/sign-in',
    'Add a sign-in',
  ],
  notification: [
    'Notification',
    'Tells you when an agent asks, fails or finishes, also while this page is closed.',
    '/notifications',
    'Set up notifications',
  ],
};

export const stateTexts: Readonly<Record<SetupStep['state'], readonly [text: string, tone: Tone]>> = {
  DONE: ['done', 'good'],
  MISSING: ['to do', 'new'],
  FAILING: ['failing', 'bad'],
};

export const isFirst = (name: SetupStepName): name is FirstStep => firstSteps.some((step) => step === name);

/** Sign-in and notifications are for admins alone, so others have nothing to do when the first steps are done. */
export const leftOf = ({ steps }: Setup, isAdmin: boolean): number =>
  steps.filter(({ name, state }) => state !== 'DONE' && (isAdmin || isFirst(name))).length;

export const firstMessage =
  'Read this repository. Say in a few sentences what it is, how it is built and tested, and what you would improve first. Change nothing.';
