import { limits } from '../limits.ts';
import { notificationEvents, usualEvents } from '../notification.ts';
import { boolean, type Infer } from '../schema.ts';
import { field, type KindEntry, nameOf, open, rotate, secretName, setting } from './kind.ts';
import { counted, joined, labelled, textIn } from './summary.ts';

const url = {
  expected: 'a URL such as https://example.com/hook, or {"fromSecret": "NAME"} to take it from a secret',
  anyOf: [
    { type: 'string', maxLength: 2048 },
    { type: 'object', properties: { fromSecret: secretName }, required: ['fromSecret'] },
  ],
} as const;

const localTime = {
  type: 'string',
  pattern: '^([01]\\d|2[0-3]):[0-5]\\d$',
  expected: 'a time of day such as 22:00',
} as const;

const address = {
  type: 'string',
  maxLength: 254,
  pattern:
    '^[^\\s<>()\\[\\],;:\\\\"@\\u0000-\\u001f\\u007f]+@[^\\s<>()\\[\\],;:\\\\"@\\u0000-\\u001f\\u007f]+$',
  expected: 'an email address such as ada@example.com',
} as const;

const schema = open({
  type: field(
    { type: 'string', enum: ['webhook', 'slack', 'email'] },
    'How it is sent. Default: email if it has `to`, otherwise webhook.',
    'slack',
  ),
  url: field(url, 'Where a webhook is sent: your endpoint, or an incoming webhook of Slack.', {
    fromSecret: 'slack-url',
  }),
  to: field(
    { type: 'array', items: address, maxItems: limits.addressesPerNotification },
    'The addresses that an email is sent to.',
    ['ada@example.com'],
  ),
  events: field(
    {
      type: 'array',
      items: { type: 'string', enum: notificationEvents },
      maxItems: notificationEvents.length,
    },
    `What to notify of. Default: ${usualEvents.join(', ')}.`,
    ['agent.needs_input', 'agent.blocked'],
  ),
  workspace: field(
    nameOf('workspace'),
    'Only about this workspace and its agents. Absent: about all.',
    'web',
  ),
  account: field(
    setting,
    'Only about this account and its agents, as in a list of agents. Absent: about all; of a member, its own.',
    'codehost_oauth/ada',
  ),
  labels: field(
    { type: 'object', additionalProperties: { type: 'string', maxLength: 256 }, maxProperties: 32 },
    'Only about agents with all of these labels.',
    { team: 'web' },
  ),
  quietHours: field(
    {
      ...open({ from: localTime, to: localTime, zone: { type: 'string', maxLength: 64 } }),
      expected: 'a time of day in `from` and `to`, and a time zone in `zone`',
    },
    'Nothing is sent between these times of day; afterwards, one digest has it all. Default zone: UTC.',
    { from: '22:00', to: '07:00', zone: 'Europe/Berlin' },
  ),
  paused: field(boolean, 'true: nothing is sent, and nothing is kept for later.', false),
  pausedReason: field(
    { type: 'string', maxLength: limits.pausedReasonLength },
    'Why the service paused it. Removed when the notification is resumed.',
    'The endpoint answered 410 Gone.',
  ),
  rotate,
});
export type NotificationDocument = Infer<typeof schema>;

export const notification = {
  title: 'Notifications',
  one: 'notification',
  purpose:
    'Messages by webhook, in Slack or by email when an agent needs input, is blocked or ends, and about more events.',
  group: 'Work',
  schema,
  writers: 'members',
  template: ['type', 'url', 'events'],
  secret: {
    field: 'signingSecret',
    isSealed: false,
    label: 'Signing secret',
    replacing: 'A new signing secret is created and shown once. The next messages are signed with it.',
  },
  form: [{ field: 'type', initial: 'webhook' }, { field: 'url' }, { field: 'account' }],
  columns: { TYPE: 'type', PAUSED: 'paused' },
  mostDocuments: limits.notificationsPerTenant,
  mostBytes: limits.notificationBytesPerTenant,
  summary: ({ type, events, workspace, account, paused }) =>
    joined(
      textIn(type),
      Array.isArray(events) ? counted(events.length, 'event') : '',
      labelled('workspace', workspace),
      labelled('account', account),
      paused === true ? 'paused' : '',
    ),
} as const satisfies KindEntry;
