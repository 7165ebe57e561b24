import type { Setup, SetupStep } from '@muster/sdk';
import type { Tone } from '../../parts/model/tone.ts';

type Texts = readonly [title: string, why: string, href: string, link: string];

/** What each step is for, and where one does it. */
export const stepTexts: Readonly<Record<SetupStep['name'], Texts>> = {
  provider: [
    'Provider key',
    'Without one, every model is rehearsed. A runner reads it from its variables, such as ANTHROPIC_API_KEY.',
    '/runners',
    'See runners',
  ],
  repository: [
    'Repository',
    'A workspace names the repositories that its agents work in.',
    '/catalog/workspace',
    'Add a workspace',
  ],
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

export const leftOf = ({ steps }: Setup): number => steps.filter(({ state }) => state !== 'DONE').length;
