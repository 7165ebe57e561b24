import { integrationCheck } from './code-host.ts';
import { provider, roles, tenantIn } from './identity.ts';
import { limits } from './limits.ts';
import { type Infer, list, nameIn, reply, request, text, timestamp } from './schema.ts';

/** Where a browser begins to sign in with a provider, and where the provider sends it back to. */
const signInPath = (step: 'start' | 'callback', tenantName: string, name: string): string =>
  `/sign-in/${step}/${[...tenantName.split('/'), name].map(encodeURIComponent).join('/')}`;

/** The tenant as `codehost_app/acme`. */
export const signInStartPath = (tenantName: string, name: string): string =>
  signInPath('start', tenantName, name);
export const signInCallbackPath = (tenantName: string, name: string): string =>
  signInPath('callback', tenantName, name);

export const signInProvidersRequest = request('SignInProvidersRequest', {
  tenant: { ...tenantIn, description: "Absent: the service's first tenant." },
  refusal: {
    type: 'string',
    maxLength: 4096,
    description: 'What the address of the page says after a sign-in that was refused.',
  },
});

export const signInProvider = reply('SignInProvider', {
  name: text,
  title: { ...text, description: 'The text of the button.' },
  startPath: {
    ...text,
    description: 'Where the browser goes, with `?return=` and the path of the page to come back to.',
  },
});
export type SignInProvider = Infer<typeof signInProvider>;

const installation = reply('Installation', {
  command: {
    ...text,
    description: 'How one runs `muster` on the machine of the service, in the folder that it was started in.',
  },
  start: {
    ...text,
    description:
      'What starts the service with its runner in a shell. Empty: a service manager starts it, or its runners are elsewhere.',
  },
});
export type Installation = Infer<typeof installation>;

export const signInProvidersReply = reply('SignInProvidersReply', {
  providers: list(signInProvider),
  refusal: { ...text, description: 'Why the sign-in was refused; empty if it was not, or some time ago.' },
  installation,
});

/** `FAILED`: the provider did not say who it is. */
export const signInOutcomes = ['ACCEPTED', 'REFUSED', 'FAILED'] as const;

export type SignInOutcome = (typeof signInOutcomes)[number];

export const signInAttempt = reply('SignInAttempt', {
  id: text,
  at: timestamp,
  outcome: { type: 'string', enum: signInOutcomes },
  reason: { ...text, description: 'Why it was refused or failed.' },
  ownerProvider: provider,
  account: { ...text, description: 'The account; of a refused one, the name that it would have.' },
  displayName: text,
  subject: { ...text, description: 'The id of the person at the provider.' },
  role: { type: 'string', enum: ['', ...roles] },
  rule: { ...text, description: 'Which rules matched.' },
  claims: {
    type: 'object',
    additionalProperties: true,
    description: `What the provider said of the person, up to ${limits.claimBytes} bytes.`,
  },
});
export type SignInAttempt = Infer<typeof signInAttempt>;

const signInIn = {
  tenant: tenantIn,
  name: { ...nameIn, description: 'The name of the document of the kind sign-in.' },
};

export const signInAttemptsRequest = request('SignInAttemptsRequest', {
  ...signInIn,
  outcomes: {
    type: 'array',
    items: { type: 'string', enum: signInOutcomes },
    maxItems: signInOutcomes.length,
  },
});
export const signInAttemptsReply = reply('SignInAttemptsReply', { entries: list(signInAttempt) });

export const testSignInRequest = request('TestSignInRequest', signInIn);

export const testSignInReply = reply('TestSignInReply', {
  redirectUri: { ...text, description: 'The address that the provider has to know.' },
  checks: list(integrationCheck),
});
export type SignInTest = Infer<typeof testSignInReply>;
