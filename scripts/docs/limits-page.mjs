import { limits } from '../../packages/sdk/dist/contract/index.js';
import { note, rowsOf } from './markdown.mjs';

const gib = (bytes) => `${bytes / 1024 ** 3} GiB`;
const kib = (bytes) => (bytes >= 1024 ** 2 ? `${bytes / 1024 ** 2} MiB` : `${bytes / 1024} KiB`);
const number = (count) => count.toLocaleString('en-US');
const invalid = 'INVALID_ARGUMENT';
const exhausted = 'RESOURCE_EXHAUSTED';
const explained = {
  bodyBytes: [
    'The body of a request, except an image, a part of a checkpoint and a sign-in (4 KiB)',
    kib,
    invalid,
  ],
  bodyDepth: ['Levels of nesting in the body of a request', number, invalid],
  bodyObjects: ['Objects and lists in the body of a request', number, invalid],
  descriptionBytes: ['`description` and `expectedOutput`, in bytes of UTF-8', kib, invalid],
  tasksPerAgent: [
    'Tasks of one agent, on its checklist and in undelivered messages; also tasks in one request',
    number,
    `${exhausted}; in one request ${invalid}`,
  ],
  taskBytesPerAgent: [
    'The texts of those tasks, and the ids in their `blocks` and `blockedBy`, in bytes of UTF-8',
    kib,
    exhausted,
  ],
  undeliveredFollowUpsPerAgent: ['Queued and deferred follow-ups of one agent', number, exhausted],
  pathDepth: ['Elements of an agent path', number, invalid],
  liveDescendantsPerRoot: ['Live agents below one root', number, exhausted],
  pageSize: ['Entries of one page; also the default', number, invalid],
  listedDescriptionLength: ['Characters of a description that a list shows', number, 'is cut'],
  listedTextBytes: [
    'A response in a list of runs, and a message in a status, in bytes of UTF-8',
    kib,
    'is cut',
  ],
  pageBytes: [
    'Texts and data of one page of agents, of runs or of a timeline, in bytes of UTF-8; at least one entry',
    kib,
    'the page ends',
  ],
  queuePageBytes: ['Messages and schemas in one page of a queue; at least one message', kib, 'the page ends'],
  undeliveredSettingsBytes: [
    'Personas and output schemas of the undelivered follow-ups of one agent',
    kib,
    exhausted,
  ],
  agentsPerWait: ['Agents in one wait for several', number, invalid],
  waitSeconds: ['`timeoutSeconds` of a wait', (n) => `${n / 86_400} days`, invalid],
  outputSchemaBytes: ['`outputSchema`, in bytes', kib, invalid],
  outputSchemaNodes: ['Objects and arrays in an `outputSchema`', number, invalid],
  outputSchemaReferences: ['References (`$ref`) in an `outputSchema`', number, invalid],
  outputSchemasWaiting: [
    'Output schemas of one tenant that wait to be compiled on a node',
    number,
    exhausted,
  ],
  documentBytes: ['A catalog document, decoded', kib, invalid],
  catalogPageBytes: [
    'Documents of one page of a catalog list or history, without the first',
    kib,
    'the page ends',
  ],
  documentDepth: ['Levels of nesting in a document or an output schema', number, invalid],
  secretValueBytes: ['The value of a secret', kib, invalid],
  secretBytesPerRun: [
    'Secrets in the environment and the MCP servers of a run',
    kib,
    'the run fails with ENVIRONMENT_INVALID',
  ],
  mcpServersPerWorkspace: ['`mcpServers` of a workspace', number, invalid],
  mcpServerEntries: ['Headers, arguments or variables of one MCP server', number, invalid],
  mcpTextLength: [
    '`url`, `command`, an argument, a header or a variable of an MCP server, in characters',
    number,
    `${invalid}; of a header from a secret: the run fails with ENVIRONMENT_INVALID`,
  ],
  mcpCommandLength: ['`command` and `args` of an MCP server together, in characters', number, invalid],
  mcpEnvironmentBytes: [
    'Variables of all local MCP servers of a run',
    kib,
    'the run fails with ENVIRONMENT_INVALID',
  ],
  mcpRequestBytes: ['A request of an agent to a remote MCP server', kib, 'the gateway refuses it (413)'],
  mcpRequestsPerServer: [
    'Open requests and event streams of a run at one remote MCP server',
    number,
    'the gateway refuses more (429)',
  ],
  maskPaths: ['Paths of an `updateMask`', number, invalid],
  checkpointPartBytes: ['A part of a checkpoint, before base64', kib, invalid],
  checkpointParts: ['Parts of a checkpoint', number, invalid],
  checkpointBytesPerTenant: ['Checkpoints of one tenant', gib, exhausted],
  checkpointsPerAgent: ['Checkpoints of one agent', number, 'the oldest are dropped'],
  preparedCopies: [
    'Prepared copies of workspaces on one runner ([warm starts](operations.md#warm-starts))',
    number,
    'the least recently used is removed',
  ],
  preparedCopiesPerWorkspace: ['Those of one workspace', number, 'the least recently used is removed'],
  preparedCopyBytes: ['Those of one runner together, on disk', gib, 'the least recently used is removed'],
  submodulesPerRun: [
    'Submodules of the repositories of one workspace',
    number,
    'are not fetched, with a warning',
  ],
  submoduleDepth: ['Levels of submodules in submodules', number, 'are not fetched, with a warning'],
  lfsBatchBytes: ['A batch request of git-lfs', kib, '413'],
  lfsBatchObjects: ['Objects in the answer to it', number, 'is cut'],
  runsPerRunner: ['Real runs of one runner at the same time', number, '`phaseReason` POOL_FULL'],
  rehearsedRunsPerRunner: [
    'Rehearsed runs of one runner at the same time',
    number,
    '`phaseReason` POOL_FULL',
  ],
  runnersPerToken: ['Live runners of one token', number, exhausted],
  runnersPerTenant: ['Live runners of one tenant', number, exhausted],
  labelsPerAgent: ['Labels of one agent', number, `${exhausted}; in one request ${invalid}`],
  labelKeyLength: ["A label's key, in characters", number, invalid],
  labelValueLength: ["A label's value, in characters", number, invalid],
  runMemoryMb: [
    'Memory of a run if its `vm-profile` has no `memoryMb`; three quarters of the memory of a smaller machine',
    (n) => `${number(n)} MiB`,
    'the kernel kills a process; WARNING',
  ],
  runProcesses: ['Processes and threads of a run if its `vm-profile` has no `processes`', number, 'WARNING'],
  runScratchMb: [
    '/tmp, /run and /dev/shm of a sandbox, each, if the `vm-profile` has no `scratchMb`',
    (n) => `${number(n)} MiB`,
    'disk full; WARNING',
  ],
  turnMinutes: [
    'A turn, from claim to end, if the pool has no `maxTurnMinutes`',
    (n) => `${number(n)} minutes`,
    'outcome INTERRUPTED; WARNING',
  ],
  mostTurnMinutes: ['`maxTurnMinutes` of a pool', (n) => `${number(n)} minutes`, invalid],
  idLength: ['`followUpId`, task ids, `Idempotency-Key`, in characters', number, invalid],
  nameLength: ['Path elements, workspace, persona and catalog names, in characters', number, invalid],
  taskSubjectLength: ["A task's `subject`, in characters", number, invalid],
  taskDescriptionLength: ["A task's `description`, in characters", number, invalid],
  taskNoteLength: ['`note` of a changed task, in characters', number, invalid],
  planSteps: ["Steps of an agent's own plan; the rest is counted in the last one", number, 'is cut'],
  planStepLength: ["A step of an agent's own plan, in characters", number, 'is cut'],
  commentsPerReview: ['Comments of one review, and threads that one message tells', number, invalid],
  commentLength: ['`body` of a comment on a change, in characters', number, invalid],
  threadQuoteLength: ['`quote` of a comment on a change, in characters', number, invalid],
  openThreadsPerAgent: ['Open review threads of one agent', number, exhausted],
  threadBytesPerAgent: ['The texts of those threads, in bytes of UTF-8', kib, exhausted],
  resolvedThreadsPerAgent: [
    'Resolved review threads of one agent, beside those of its open change requests',
    number,
    'the oldest are deleted',
  ],
  patternLength: ["A task's glob `activation.filesModified.pattern`, in characters", number, invalid],
  fileNameLength: [
    'A file name in a push that a runner reports or in a comment on a change, in characters',
    number,
    invalid,
  ],
  filesPerPush: ['Files of one push that a runner reports', number, invalid],
  justificationLength: ['`justification`, in characters', number, invalid],
  deferDays: ['How far ahead `deliverAt` may be', (n) => `${n} days`, invalid],
  timelineDays: [
    "How long a timeline, checkpoints, a diff and review threads are stored after the agent's end",
    (n) => `${n} days`,
    'OUT_OF_RANGE',
  ],
  runResultsPerAgent: [
    'Runs of one live agent whose response and structured output are stored; the newest ones',
    number,
    'those of older runs are empty',
  ],
  idempotencyHours: ['How long the reply for an `Idempotency-Key` is stored', (n) => `${n} hours`, '–'],
  signInCodeMinutes: ['How long a sign-in code is valid', (n) => `${n} minutes`, 'UNAUTHENTICATED'],
  firstSignInCodeMinutes: [
    'How long the sign-in code that `muster serve` prints is valid',
    (n) => `${n} minutes`,
    'UNAUTHENTICATED',
  ],
  signInCodesPerKey: ['Valid sign-in codes of one key', number, 'the oldest is dropped'],
  signInCodesPerTenant: ['Valid sign-in codes of one tenant', number, 'the oldest is dropped'],
  sessionIdleHours: ['How long a browser session lasts without use', (n) => `${n} hours`, 'UNAUTHENTICATED'],
  sessionDays: ['How long a browser session lasts', (n) => `${n} days`, 'UNAUTHENTICATED'],
  sessionsPerKey: ['Browser sessions of one key', number, 'the least recently used one ends'],
  reportItems: ["Items in one runner's report", number, invalid],
  diffLength: ["A repository's diff in one report, in characters", number, invalid],
  reportedTextLength: ['Text of one reported item, response or question, in characters', number, invalid],
  partialsPerSecond: [
    'Partials of one agent in a second: pieces of texts that it is producing',
    number,
    'later pieces are longer, or dropped',
  ],
  partialTextLength: ['`text` of a partial, in characters', number, invalid],
  partialKeyLength: ['`key` of a partial, in characters', number, invalid],
  partialsPerRequest: ["Partials in one runner's request", number, invalid],
  partialTextsPerRun: [
    'Texts that a run is producing at the same time and that are shown',
    number,
    'the oldest are not shown',
  ],
  keptPartialLength: [
    'How much of the end of such a text a new reader of the stream gets, in characters',
    number,
    'the beginning is left out',
  ],
  steersPerRun: [
    'Steering messages that one run has at a time until its harness has taken them',
    number,
    'the next ones wait',
  ],
  remindersPerRun: ['Reminders of unfinished tasks within one run', number, '–'],
  equalReportFailures: [
    'How often in a row the service may fail on one report of a run with the same error',
    number,
    'the run ends FAILED with the code `REPORT_FAILED` and the incident number',
  ],
  lostRunsInARow: [
    'Runs in a row whose runner died, before the agent is blocked',
    number,
    '`phaseReason` BLOCKED',
  ],
  leaseSeconds: [
    "A runner's lease after its last poll (`MUSTER_LEASE_SECONDS`)",
    (n) => `${n} s`,
    'outcome LOST',
  ],
  keepAliveSeconds: [
    'How often an open wait or stream sends a few bytes (`MUSTER_KEEP_ALIVE_SECONDS`); a client that reads nothing for two of these intervals is disconnected',
    (n) => `${n} s`,
    'the connection is closed',
  ],
  openRepliesPerKey: [
    'Open waits, streams and polls of one key, at all workers of one `muster serve`',
    number,
    exhausted,
  ],
  watchedAgentsPerKey: [
    'Agents that the open waits and streams of one key watch, at all workers of one `muster serve`',
    number,
    exhausted,
  ],
  attachmentBytes: [
    'An image of a message or of a tool; of a tool, a larger one is not stored',
    kib,
    invalid,
  ],
  attachmentsPerMessage: ['Images of one message', number, invalid],
  toolImagesPerRun: ['Images of tools that a runner stores of one run', number, 'not stored'],
  undeliveredAttachmentBytes: ['Images of one agent that no run has got yet', kib, exhausted],
  attachmentBytesPerTenant: ['Images of one tenant', gib, exhausted],
  attachmentBytesInFlight: ['Images that arrive at one node at the same time', kib, 'UNAVAILABLE'],
  deliveryBytes: ['A delivery of a code host', kib, invalid],
  deliveryBytesInFlight: ['Deliveries that arrive at one node at the same time', kib, 'UNAVAILABLE'],
  deliveryIdLength: ["The host's id of a delivery, in characters", number, 'the rest is cut off'],
  deliveryDays: [
    'How long a delivery can be listed and processed again',
    (n) => `${n} days`,
    'it is deleted',
  ],
  deliveryRetryDays: [
    'How long a delivery whose processing fails is tried again',
    (n) => `${n} days`,
    'its state is FAILED',
  ],
  deliveriesWaitingPerTenant: [
    'Deliveries of one tenant that are not processed yet',
    number,
    'UNAVAILABLE; the host sends them again, or the state is compared',
  ],
  deliveriesPerIntegration: ['Processed deliveries of one integration', number, 'the oldest are deleted'],
  outboxDays: [
    'How long settled items of the outbox are stored; those about an open change request longer',
    (n) => `${n} days`,
    'they are deleted',
  ],
};

export const limitsPage = `# Limits

${note('packages/sdk/src/contract/limits.ts')}
A request that is too large is INVALID_ARGUMENT. A count that has reached its limit is RESOURCE_EXHAUSTED, with
\`Retry-After\`. The rate of requests has no limit unless you set \`MUSTER_RATE_LIMIT\`, per second and key (RESOURCE_EXHAUSTED).

| limit | value | what it limits | when it is reached |
|---|---|---|---|
${rowsOf(
  limits,
  explained,
  (name, value, [what, format, effect]) => `| \`${name}\` | ${format(value)} | ${what} | ${effect} |`,
)}
`;
