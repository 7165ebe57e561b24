import { emptyReply } from '../agent.ts';
import { auditReply, auditRequest } from '../audit.ts';
import { serviceReply } from '../backend.ts';
import * as login from '../device-login.ts';
import * as identity from '../identity.ts';
import { listKeysReply, listKeysRequest, revokeKeyRequest } from '../keys.ts';
import type { Operations } from './operation.ts';

export const callerOperations = {
  whoami: {
    summary: "Returns the authenticated caller's identity.",
    isOriginal: true,
    access: 'self',
    reply: identity.whoamiReply,
  },
  service: {
    summary: "Returns the backends that are ready and the live runners that serve the caller's tenant.",
    access: 'person',
    reply: serviceReply,
  },
  signInCode: {
    summary: 'Creates a code that signs a browser in, once.',
    access: 'person',
    body: identity.signInCodeRequest,
    reply: identity.signInCodeReply,
    example: {},
  },
  signIn: {
    summary: 'Signs a browser in, by a code or a key: sets a session cookie.',
    access: 'own-page',
    body: identity.signInRequest,
    reply: identity.signedInReply,
    bodyBytes: 4096,
  },
  signOut: {
    summary: "Ends the caller's session.",
    access: 'self',
    body: identity.signOutRequest,
    reply: emptyReply,
    example: {},
  },
  session: {
    summary: "Returns the caller's session.",
    access: 'self',
    reply: identity.signedInReply,
  },
  listSessions: {
    summary: 'Lists browser sessions, newest first.',
    access: 'person',
    body: identity.listSessionsRequest,
    reply: identity.listSessionsReply,
    example: {},
  },
  revokeSession: {
    summary: 'Ends a browser session.',
    access: 'person',
    body: identity.revokeSessionRequest,
    reply: emptyReply,
  },
  audit: {
    summary: 'Lists who did what: catalog writes, sign-ins, keys, members, kills; newest first.',
    access: 'person',
    body: auditRequest,
    reply: auditReply,
    example: {},
  },
  listKeys: {
    summary: 'Lists the keys of an account: tokens, command lines, sign-ins.',
    access: 'person',
    body: listKeysRequest,
    reply: listKeysReply,
    example: {},
  },
  revokeKey: {
    summary: 'Revokes a key. A token is deleted from the catalog.',
    access: 'person',
    body: revokeKeyRequest,
    reply: emptyReply,
  },
  startLogin: {
    summary: 'Begins the sign-in of a command line: returns the code that a person approves.',
    access: 'anyone',
    body: login.startLoginRequest,
    reply: login.startLoginReply,
    bodyBytes: 4096,
  },
  pollLogin: {
    summary: 'Returns whether the sign-in of a command line was approved, and then its key, once.',
    access: 'anyone',
    body: login.pollLoginRequest,
    reply: login.pollLoginReply,
    bodyBytes: 4096,
  },
  showLogin: {
    summary: 'Returns who asks for a sign-in, by the code that a command line shows.',
    access: 'person',
    body: login.showLoginRequest,
    reply: login.showLoginReply,
  },
  answerLogin: {
    summary: 'Approves or denies the sign-in of a command line, as your account.',
    access: 'person',
    body: login.answerLoginRequest,
    reply: emptyReply,
  },
} as const satisfies Operations;
