import * as signIn from '../sign-in.ts';
import type { Operations } from './operation.ts';

export const signInOperations = {
  signInProviders: {
    summary: 'Lists the providers that people can sign in with. Only for the sign-in page.',
    access: 'own-page',
    body: signIn.signInProvidersRequest,
    reply: signIn.signInProvidersReply,
    bodyBytes: 8192,
  },
  listSignIns: {
    summary:
      'Lists the last sign-ins with a provider, with their claims and the rules that matched, newest first.',
    access: 'catalog-write',
    body: signIn.signInAttemptsRequest,
    reply: signIn.signInAttemptsReply,
    example: { name: 'company', outcomes: ['REFUSED'] },
  },
  testSignIn: {
    summary:
      'Checks whether people can sign in with a provider: its configuration, the client, the redirect URI.',
    access: 'catalog-write',
    body: signIn.testSignInRequest,
    reply: signIn.testSignInReply,
    example: { name: 'company' },
  },
} as const satisfies Operations;
