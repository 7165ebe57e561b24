import { agentIdIn } from '../identity.ts';
import type { Infer } from '../schema.ts';
import { expiry, field, type KindEntry, open, rotate } from './kind.ts';
import { agentIn } from './summary.ts';

const schema = open({
  agentId: field(agentIdIn, 'The agent that the link shows. Missing fields are filled in from the caller.', {
    agent: ['my-agent'],
  }),
  expiresAt: expiry,
  rotate,
});
export type ShareLinkDocument = Infer<typeof schema>;

export const shareLink = {
  title: 'Share links',
  one: 'share link',
  purpose: 'Links that give read-only access to one agent without a key.',
  group: 'Access',
  schema,
  writers: 'members',
  template: ['agentId'],
  serverFields: ['keyId', 'opens', 'openedAt'],
  secret: {
    field: 'url',
    isSealed: false,
    label: 'Link',
    replacing: 'A new link is created and shown once. The old link stops working within 5 seconds.',
  },
  form: [{ field: 'agentId' }, { field: 'expiresAt', days: 7 }],
  deleting: {
    verb: 'Revoke',
    effect: 'The link stops working within 5 seconds, also for people who have it open.',
  },
  isRestorable: false,
  summary: ({ agentId }) => agentIn(agentId),
} as const satisfies KindEntry;
