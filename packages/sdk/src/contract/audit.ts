import { tenantIn } from './identity.ts';
import { kinds } from './kinds.ts';
import { limits } from './limits.ts';
import {
  boolean,
  type Infer,
  pageIn,
  pageOf,
  reply,
  request,
  text,
  timestamp,
  timestampIn,
} from './schema.ts';

/** What is on record beside catalog writes: what each action is called, in a sentence that begins with its actor. */
export const auditActions = {
  session: {
    SIGN_IN: 'signed in',
    REFUSE: 'was refused at sign-in',
    REVOKE: 'ended a browser session',
  },
  member: {
    DISABLE: 'disabled the account',
    ENABLE: 'enabled the account',
    SET_ROLE: 'set the role of',
    CLEAR_ROLE: 'cleared the role that was set for',
  },
  key: {
    GRANT: 'approved a command line sign-in',
    DENY: 'denied a command line sign-in',
    REVOKE: 'revoked a key',
  },
  agent: { KILL: 'killed the agent of another account' },
  runner: { DRAIN: 'drained the runner', UNDRAIN: 'let the runner take runs again' },
} as const;

export type AuditKind = keyof typeof auditActions;
export const auditKinds = Object.keys(auditActions) as AuditKind[];

/** Each kind with one of its actions. */
export type AuditAct = {
  [K in AuditKind]: { readonly kind: K; readonly action: keyof (typeof auditActions)[K] };
}[AuditKind];

const writeActions: Readonly<Record<string, string>> = { WRITE: 'wrote', DELETE: 'deleted' };

/** `wrote`, `signed in`: what the record says of its actor. */
export const auditText = ({ kind, action }: { readonly kind: string; readonly action: string }): string =>
  (auditActions as Readonly<Record<string, Readonly<Record<string, string>>>>)[kind]?.[action] ??
  writeActions[action] ??
  action.toLowerCase();

/** Every kind that a record can have. */
export const recordedKinds: readonly string[] = [...kinds, ...auditKinds];

export const auditRequest = request('AuditRequest', {
  tenant: tenantIn,
  from: { ...timestampIn, description: `Absent: as long as records are kept, ${limits.auditDays} days.` },
  to: { ...timestampIn, description: 'Not included. Absent: now.' },
  actor: {
    type: 'string',
    maxLength: 300,
    description: 'Only what this account did, as `provider_name/account`.',
  },
  kind: {
    type: 'string',
    enum: ['', ...recordedKinds],
    description: `A kind of the catalog, or one of ${auditKinds.join(', ')}.`,
  },
  name: { type: 'string', maxLength: 1024, description: 'Only what was done to this.' },
  action: {
    type: 'string',
    maxLength: 32,
    description: 'Such as WRITE, DELETE, SIGN_IN or KILL.',
  },
  text: {
    type: 'string',
    maxLength: 256,
    description: 'Only records with this text in the actor, name, justification or details, in any case.',
  },
  documents: {
    ...boolean,
    description: `Whether catalog writes have their documents; a page then has at most ${limits.auditDocuments} records.`,
  },
  ...pageIn,
});
export type AuditRequest = Infer<typeof auditRequest>;

export const auditEntry = reply('AuditEntry', {
  at: timestamp,
  actor: {
    ...text,
    description: '`provider_name/account` of the key, or of the account that tried to sign in.',
  },
  keyId: { ...text, description: 'The key that was used; empty for a sign-in that was refused.' },
  kind: text,
  name: { ...text, description: 'What it was done to, such as the name of a resource or an account.' },
  action: { ...text, description: 'Such as WRITE, DELETE, SIGN_IN or KILL.' },
  justification: text,
  details: { type: 'object', additionalProperties: text },
  generation: { ...text, description: 'Of a catalog write, the generation that it made; otherwise empty.' },
  updateMask: { ...text, description: 'Of a catalog write, the fields that it changed; empty for all.' },
  payload: {
    ...text,
    description:
      'Of a catalog write, the document as base64-encoded JSON, if `documents` asked for it and it is still kept.',
  },
  previousPayload: { ...text, description: 'The same of the generation before.' },
});
export type AuditEntry = Infer<typeof auditEntry>;

export const auditReply = {
  ...pageOf('AuditReply', auditEntry),
  description:
    'Newest first. A page may have fewer records than asked for, even none, and still be followed by another: the service looks at a limited number of records at a time.',
};
