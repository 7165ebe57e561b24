import { errorEnvelope } from './errors.ts';
import { limits } from './limits.ts';
import { type BodyOf, type Route, type RouteName, routes } from './routes.ts';
import type { Schema } from './schema.ts';

/** The operations by tag, in reading order, each with its summary. */
export const tags: Readonly<
  Record<string, { readonly about: string; readonly summaries: Partial<Record<RouteName, string>> }>
> = {
  agents: {
    about: 'Spawn agents, see their status, wait for them, end them.',
    summaries: {
      spawn: 'Spawns an agent.',
      status: "Returns an agent's status.",
      wait: 'Blocks until the agent needs attention.',
      waitMany: 'Blocks until one of several agents, or all of them, need attention.',
      list: 'Lists agents, one level deep.',
      listStream: 'Streams list entries as they change.',
      listStreamByGet: 'The same for EventSource, with the filter in the query.',
      kill: 'Ends an agent and all agents below it.',
      retry: 'Runs the messages of a blocked agent again, and those of a retrying one immediately.',
      reopen: 'Reopens an agent that finished or failed.',
      labels: 'Sets and removes labels of an agent.',
      diff: "Returns the changes on the agent's branch.",
      checkpoint: "Returns one part of an agent's newest checkpoint: its unpushed work and its session.",
    },
  },
  messages: {
    about: 'Follow-ups: more work and answers, now or later.',
    summaries: {
      queue: 'Queues a follow-up.',
      removeFollowUp: 'Removes one undelivered follow-up.',
      listFollowUps: 'Lists undelivered follow-ups with their whole texts.',
      followUp: 'Returns one follow-up: its state, its run and the answer.',
      clearFollowUps: 'Discards all queued follow-ups.',
      uploadAttachment: 'Uploads an image for messages to an agent.',
      attachment: 'Returns an image of a message or of a tool.',
    },
  },
  runs: {
    about: 'The turns of an agent: what happened in them, and how to stop one.',
    summaries: {
      stopTurn: 'Interrupts the current turn.',
      runs: "Lists an agent's runs, newest first.",
      timeline: "Lists an agent's timeline entries.",
      timelineStream: 'Streams timeline entries; resumes by Last-Event-ID.',
      timelineStreamByGet: 'The same for EventSource, with the agent in the query.',
      ask: 'Asks a question, for a run: the agent needs the answer when the run has ended.',
      finish: 'Declares the agent finished, for a run.',
      fail: 'Declares the agent failed, for a run.',
    },
  },
  tasks: {
    about: "An agent's checklist.",
    summaries: {
      tasks: 'Lists the tasks.',
      createTasks: 'Adds tasks to the checklist.',
      updateTask: 'Changes one task.',
    },
  },
  reviews: {
    about: "Review threads: comments on an agent's changes, and its answers.",
    summaries: {
      threads: 'Lists the review threads.',
      createReview: 'Opens a thread per comment, and sends the agent one message with a task per thread.',
      replyToThread: "Replies to a thread, which opens it again; with a run's key, answers it.",
      resolveThread: 'Resolves a thread, or opens it again.',
    },
  },
  catalog: {
    about: 'Versioned documents: workspaces, personas, environments, pools, keys.',
    summaries: {
      writeResource: 'Creates or updates a catalog resource.',
      readResource: 'Reads a catalog resource.',
      listResources: 'Lists the resources of a kind.',
      deleteResource: 'Deletes a catalog resource.',
      resourceHistory: 'Lists who wrote a resource, when and why, newest first.',
    },
  },
  'code hosts': {
    about:
      'Integrations with GitHub, GitLab and Forgejo: change requests of agents, and deliveries of webhooks.',
    summaries: {
      openChangeRequest: 'Opens a change request from the branch that an agent pushed.',
      syncChangeRequests: 'Compares change requests with their hosts.',
      testIntegration: 'Checks the credential, the permissions and the webhook of an integration.',
      listDeliveries: 'Lists the deliveries that an integration received, newest first.',
      redeliver: 'Processes a delivery again.',
    },
  },
  caller: {
    about: 'Who a key belongs to, and how a browser signs in.',
    summaries: {
      whoami: "Returns the authenticated caller's identity.",
      service: "Returns the backends that are ready and the live runners that serve the caller's tenant.",
      signInCode: 'Creates a code that signs a browser in, once.',
      signIn: 'Signs a browser in, by a code or a key: sets a session cookie.',
      signOut: "Ends the caller's session.",
      session: "Returns the caller's session.",
      listSessions: 'Lists browser sessions, newest first.',
      revokeSession: 'Ends a browser session.',
    },
  },
  runner: {
    about: 'The protocol between the service and its runners.',
    summaries: {
      runnerPoll: "A runner's heartbeat: returns claims and stops.",
      runnerReport: 'Reports what a run did.',
      runnerPartials: 'Sends pieces of the texts that runs are producing, for open timeline streams.',
      runnerSaveCheckpoint: 'Saves one part of a checkpoint.',
      runnerCompleteCheckpoint: 'Completes a checkpoint after every part is saved.',
      runnerCheckpoints: "Lists an agent's checkpoints, newest first.",
      runnerLoadCheckpoint: 'Returns one part of a checkpoint.',
      runnerAttachment: 'Returns an image of a message of a run.',
      runnerSaveAttachment: 'Saves an image that a tool returned in a run.',
      runnerGitCredential: "Returns an integration's credential for a repository of a run.",
      runnerEndedAgents: 'Lists which agents have ended.',
    },
  },
};

/** The routes of the first version of the API; the document marks all others with `x-addition`. */
const firstRoutes: readonly RouteName[] = [
  'whoami',
  'spawn',
  'status',
  'wait',
  'queue',
  'removeFollowUp',
  'clearFollowUps',
  'stopTurn',
  'kill',
  'list',
  'writeResource',
  'readResource',
];

/** The OpenAPI 3.1 document of the route table. Each schema with a title becomes a component. */
export function openApiDocument(serverUrl: string): Record<string, unknown> {
  const components: Record<string, unknown> = {};

  const publish = (schema: Schema): Record<string, unknown> => {
    const { title, expected, properties, items, anyOf, additionalProperties, ...rest } = schema;
    const isNullable = Array.isArray(rest.type) && rest.type.includes('null') && properties !== undefined;
    const body: Record<string, unknown> = { ...rest };
    if (isNullable) body.type = 'object';
    if (expected !== undefined && rest.description === undefined) body.description = `Must be ${expected}.`;
    if (properties) {
      body.properties = Object.fromEntries(Object.entries(properties).map(([k, s]) => [k, publish(s)]));
    }
    if (items) body.items = publish(items);
    if (anyOf) body.anyOf = anyOf.map(publish);
    if (additionalProperties !== undefined) {
      body.additionalProperties =
        typeof additionalProperties === 'boolean' ? additionalProperties : publish(additionalProperties);
    }
    if (title) components[title] = body;
    const shape = title ? { $ref: `#/components/schemas/${title}` } : body;
    return isNullable ? { anyOf: [shape, { type: 'null' }] } : shape;
  };

  const paths: Record<string, Record<string, unknown>> = {};
  for (const [name, route] of Object.entries<Route>(routes)) {
    paths[route.path] ??= {};
    const path = paths[route.path];
    if (path) path[route.method.toLowerCase()] = operation(name as RouteName, route, publish);
  }
  const error = publish(errorEnvelope);

  return {
    openapi: '3.1.0',
    info: {
      title: 'Muster',
      version: 'v1',
      description: 'A control plane for fleets of coding agents. Pre-alpha: it may change without notice.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: serverUrl }],
    security: [{ key: [] }],
    tags: Object.entries(tags).map(([name, { about }]) => ({ name, description: about })),
    paths,
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'mst_<key_id>.<secret>' },
      },
      responses: {
        Error: { description: 'Any failure.', content: { 'application/json': { schema: error } } },
      },
      schemas: Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1))),
    },
  };
}

const streamed = (name: RouteName): string =>
  ['Server-Sent Events; the data of each is this schema.', otherEvents[name]].filter(Boolean).join(' ');

function operation(name: RouteName, route: Route, publish: (s: Schema) => Record<string, unknown>) {
  const inPath = [...route.path.matchAll(/\{([^}]+)\}/g)].map(([, parameter = '']) => ({
    name: parameter,
    in: 'path',
    required: true,
    schema: { type: 'string' },
    example: pathExamples[parameter],
  }));
  const inQuery = Object.entries(route.query?.properties ?? {}).map(([parameter, schema]) => ({
    name: parameter,
    in: 'query',
    schema: publish(schema),
  }));
  const inHeader = Object.entries(requestHeaders[name] ?? {}).map(
    ([parameter, { description, ...schema }]) => ({ name: parameter, in: 'header', description, schema }),
  );
  const parameters = [...inPath, ...inQuery, ...inHeader];
  const example = bodyExamples[name];
  const [tag, notes] = Object.entries(tags).find(([, { summaries }]) => name in summaries) ?? [];
  return {
    operationId: name,
    summary: notes?.summaries[name],
    tags: [tag],
    ...(!firstRoutes.includes(name) && { 'x-addition': true }),
    ...(route.access === 'own-page' && { security: [] }),
    ...(parameters.length > 0 && { parameters }),
    ...(route.body && {
      requestBody: {
        required: route.method === 'POST',
        content: { 'application/json': { schema: publish(route.body), ...(example && { example }) } },
      },
    }),
    ...(route.upload && {
      requestBody: {
        required: true,
        content: Object.fromEntries(
          route.upload.map((type) => [type, { schema: { type: 'string', format: 'binary' } }]),
        ),
      },
    }),
    responses: {
      200: {
        description: route.stream ? streamed(name) : 'Done.',
        content: {
          [route.stream ? 'text/event-stream' : 'application/json']: { schema: publish(route.reply) },
        },
      },
      default: { $ref: '#/components/responses/Error' },
    },
  };
}

const lastEventId = {
  'Last-Event-ID': {
    type: 'string',
    description: 'The sequence of the last entry that you read; the stream continues after it.',
  },
} as const;

export const requestHeaders: Readonly<Partial<Record<RouteName, Readonly<Record<string, Schema>>>>> = {
  spawn: {
    'Idempotency-Key': {
      type: 'string',
      maxLength: limits.idLength,
      description: `A repeated spawn with the same key and body returns the first reply, for ${limits.idempotencyHours} hours.`,
    },
  },
  timelineStream: lastEventId,
  timelineStreamByGet: lastEventId,
};

const wholeEvent = 'An event named `whole` with the data `{}` marks the end of the list; changes follow.';

const partialEvent =
  'An event named `partial`, without an id, has `runId`, `key`, `type`, `offset` and `text`: a piece of a text that the agent is producing. It is not stored; the entry with the whole text repeats the key in `data.key`.';

/** Events of a stream beside its entries. */
export const otherEvents: Readonly<Partial<Record<RouteName, string>>> = {
  listStream: wholeEvent,
  listStreamByGet: wholeEvent,
  timelineStream: partialEvent,
  timelineStreamByGet: partialEvent,
};

export const pathExamples: Readonly<Record<string, string>> = { 'ref.kind': 'persona', 'ref.name': 'terse' };

const agentId = { agent: ['fix-login'] };

/** Requests that work once there is an agent `fix-login`. */
export const bodyExamples: { readonly [N in RouteName]?: BodyOf<N> } = {
  spawn: {
    agentId,
    description: 'Fix the login page: a wrong password shows a blank screen.',
    tasks: [{ subject: 'Reproduce it in a test' }, { subject: 'Fix it' }],
  },
  signInCode: {},
  signOut: {},
  listSessions: {},
  status: { agentId },
  wait: { agentId },
  waitMany: { agentIds: [agentId, { agent: ['fix-login', 'tests'] }] },
  list: { includeTerminal: true, pageSize: 50 },
  listStream: { allDepths: true },
  kill: { agentId },
  retry: { agentId },
  reopen: { agentId },
  labels: { agentId, labels: { team: 'web', sprint: '' } },
  diff: { agentId },
  checkpoint: { agentId },
  queue: { agentId, description: 'Cover the empty password, too.' },
  removeFollowUp: { agentId, followUpId: 'a-follow-up' },
  listFollowUps: { agentId, pageSize: 100 },
  followUp: { agentId, followUpId: 'a-follow-up' },
  clearFollowUps: { agentId },
  attachment: { agentId, attachmentId: '0a1b2c3d4e5f60718293a4b5c6d7e8f9' },
  stopTurn: { agentId, runId: '1', mode: 'STOP_TURN_MODE_INTERRUPT' },
  runs: { agentId, limit: 10 },
  timeline: { agentId, afterSequence: '0', limit: 100 },
  timelineStream: { agentId, afterSequence: '0' },
  ask: { agentId, question: 'Should an expired password lead to the reset page?' },
  finish: { agentId, text: 'The login page shows what is wrong.' },
  fail: { agentId, message: 'The password database is not in this repository.' },
  tasks: { agentId },
  createTasks: { agentId, tasks: [{ id: 'docs', subject: 'Write it down' }] },
  updateTask: { agentId, id: 'docs', status: 'TASK_STATUS_COMPLETED' },
  threads: { agentId, states: ['OPEN'] },
  createReview: {
    agentId,
    description: 'Two remarks.',
    comments: [
      { path: 'src/login.ts', line: 12, body: 'What if the password is empty?' },
      { path: 'src/login.ts', startLine: 20, line: 24, body: 'Use the function that exists for this.' },
    ],
  },
  openChangeRequest: { agentId, title: 'Show what is wrong with a password', draft: true },
  syncChangeRequests: {},
  testIntegration: { name: 'github' },
  listDeliveries: { name: 'github', states: ['FAILED', 'IGNORED'] },
  redeliver: { name: 'github', deliveryId: '72d3162e-cc78-11e3-81ab-4c9367dc0958' },
  deleteResource: { justification: 'It is not used any more' },
  writeResource: { payload: 'eyJpbnN0cnVjdGlvbnMiOiJCZSB0ZXJzZS4ifQ==', justification: 'A first draft' },
};
