import { limits } from './limits.ts';
import { boolean, type Infer, reply, requestWith, text, timestamp } from './schema.ts';

/**
 * A command line signs in without a key: it shows a short code, and a signed-in person approves that code on a page of
 * the service. Meanwhile the command line asks with a long code whether it has been approved.
 */

export const startLoginRequest = requestWith('StartLoginRequest', ['client'], {
  client: {
    type: 'string',
    minLength: 1,
    maxLength: limits.loginClientLength,
    expected: `the name of the program and of its machine, at most ${limits.loginClientLength} characters`,
    description: 'What the program says of itself. The person sees it, marked as unverified.',
  },
});

export const startLoginReply = reply('StartedLogin', {
  deviceCode: { ...text, description: 'For the program alone: it is what a key is given for, once.' },
  userCode: { ...text, description: 'For the person, as `BCDF-GHJK`. It gives access to nothing.' },
  verificationUrl: { ...text, description: 'The page where the person enters the code.' },
  expiresAt: timestamp,
  intervalSeconds: { type: 'integer', description: 'How long the program has to wait between two polls.' },
});
export type StartedLogin = Infer<typeof startLoginReply>;

export const loginStates = ['PENDING', 'SLOW_DOWN', 'GRANTED', 'DENIED', 'EXPIRED'] as const;

const deviceCodeIn = {
  type: 'string',
  maxLength: limits.idLength,
  expected: 'the deviceCode of startLogin',
} as const;

export const pollLoginRequest = requestWith('PollLoginRequest', ['deviceCode'], { deviceCode: deviceCodeIn });

export const pollLoginReply = reply('PolledLogin', {
  state: {
    type: 'string',
    enum: loginStates,
    description:
      'PENDING: poll again. SLOW_DOWN: the poll came too early. EXPIRED: also one that does not exist or whose key was given before.',
  },
  intervalSeconds: { type: 'integer', description: 'How long to wait until the next poll.' },
  apiKey: { ...text, description: 'With GRANTED, the key: it is shown once. Otherwise empty.' },
});
export type PolledLogin = Infer<typeof pollLoginReply>;

const userCodeIn = {
  type: 'string',
  maxLength: 32,
  description: 'In any case; hyphens and spaces do not count.',
  expected: 'the code that the command line shows, such as BCDF-GHJK',
} as const;

export const showLoginRequest = requestWith('ShowLoginRequest', ['userCode'], { userCode: userCodeIn });

export const showLoginReply = reply('PendingLogin', {
  userCode: text,
  client: { ...text, description: 'What the program says of itself. Nobody has verified it.' },
  address: { ...text, description: 'The network address that asked.' },
  createdAt: timestamp,
  expiresAt: timestamp,
});
export type PendingLogin = Infer<typeof showLoginReply>;

export const answerLoginRequest = requestWith('AnswerLoginRequest', ['userCode', 'approve'], {
  userCode: userCodeIn,
  approve: {
    ...boolean,
    description: `true: the program gets a key of your account with your role, for ${limits.loginKeyDays} days after its last use. false: it gets none.`,
  },
});
