import { spawnRequest } from '../agent.ts';
import { agentIdIn } from '../identity.ts';
import { limits } from '../limits.ts';
import { boolean, type Infer, list } from '../schema.ts';
import { field, fromSecret, type KindEntry, open, rotate, setting } from './kind.ts';
import { agentIn, joined, labelled, textIn } from './summary.ts';

/** How the sender of a request proves that it has the secret. */
export const triggerAuths = ['standard-webhooks', 'hmac-sha256', 'bearer'] as const;
export type TriggerAuth = (typeof triggerAuths)[number];

const template = { type: 'string', maxLength: limits.triggerTextLength } as const;
const scalar = {
  type: ['string', 'number', 'boolean'],
  expected: 'a text, a number, true or false',
} as const;

/** The fields of a spawn, with templates. */
const spawn = {
  ...open({
    ...spawnRequest.properties,
    agentId: {
      ...agentIdIn,
      properties: {
        ...agentIdIn.properties,
        agent: { ...agentIdIn.properties.agent, items: { ...template, minLength: 1 } },
      },
    },
    name: {
      ...template,
      description:
        'The path of the agent, if it has one element. Default: that of the trigger, and a digest.',
    },
    description: template,
    expectedOutput: template,
    labels: { type: 'object', additionalProperties: template, maxProperties: limits.labelsPerAgent },
  }),
  expected: 'the fields of a spawn',
} as const;

const schema = open({
  agentId: field(agentIdIn, 'The agent that gets a message. Missing fields are those of its creator.', {
    agent: ['my-agent'],
  }),
  message: field(
    template,
    'The message. {{body.a.b}}, {{header.x}} and {{query.x}} are replaced by values of the request, as quotes. Default: the body.',
    'Look into the alert {{body.commonLabels.alertname}}.',
  ),
  spawn: field(
    spawn,
    'Or the agent to spawn, with the fields of a spawn. {{…}} may be in its name, description, expectedOutput and labels.',
    { description: 'Find the cause of {{body.title}}, and fix it.', workspace: 'default' },
  ),
  auth: field(
    { type: 'string', enum: triggerAuths },
    'How requests prove that they are from the sender. `hmac-sha256` signs the body; `bearer` sends the secret itself. Default standard-webhooks.',
    'standard-webhooks',
  ),
  signatureHeader: field(
    {
      type: 'string',
      maxLength: 100,
      pattern: '^$|^[A-Za-z0-9-]+$',
      expected: 'the name of a header, such as x-hub-signature-256',
    },
    'The header with the signature of `hmac-sha256` (default x-hub-signature-256), or with the secret of `bearer` (default authorization).',
    'x-hub-signature-256',
  ),
  webhookSecret: field(
    fromSecret,
    'The secret with the key that the sender uses, if the sender made it. Only admins may set it.',
    { fromSecret: 'sentry-client-secret' },
  ),
  filter: field(
    {
      ...list(
        open({
          path: field(setting, 'What is compared: body.a.b, header.x or query.x.', 'body.action'),
          equals: field(scalar, 'The value must be this.', 'created'),
          in: field({ ...list(scalar), maxItems: 100 }, 'The value must be one of these.', [
            'opened',
            'reopened',
          ]),
          glob: field(setting, 'The value must match this; * is any characters.', 'release-*'),
        }),
      ),
      maxItems: 50,
    },
    'Requests that do not match all of these are ignored.',
    [{ path: 'body.action', equals: 'created' }],
  ),
  dedupe: field(
    setting,
    'Requests with the same value here are about the same thing: while its agent has not ended, they are messages to it. Default: each delivery is about something else.',
    'body.groupKey',
  ),
  maxPerHour: {
    type: 'integer',
    minimum: 1,
    maximum: 10_000,
    expected: 'a whole number from 1 to 10000',
    description: 'Further requests within an hour are ignored. Default 60.',
    examples: [60],
  },
  paused: field(boolean, 'true: requests are recorded as IGNORED.', false),
  rotate,
});
export type TriggerDocument = Infer<typeof schema>;

export const trigger = {
  title: 'Triggers',
  one: 'trigger',
  purpose:
    'Addresses to which other systems send requests that spawn agents or are messages to one: alerts, issues, failed jobs.',
  group: 'Work',
  schema,
  writers: 'members',
  template: ['spawn'],
  serverFields: ['url', 'pausedReason'],
  secret: {
    field: 'secret',
    isSealed: false,
    label: 'Secret',
    replacing: 'A new secret is created and shown once. The old one stops working within 5 seconds.',
  },
  deleting: { verb: 'Delete', effect: 'Requests to its address are refused.' },
  columns: { URL: 'url' },
  mostBytes: limits.triggerBytesPerTenant,
  summary: ({ agentId, spawn, auth, paused, pausedReason }) =>
    joined(
      paused === true || textIn(pausedReason) ? 'paused' : '',
      spawn !== null && typeof spawn === 'object' ? 'spawns an agent' : '',
      labelled('message to', agentIn(agentId)),
      textIn(auth),
    ),
} as const satisfies KindEntry;
