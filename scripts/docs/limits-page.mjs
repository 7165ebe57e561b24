import { limits } from '../../packages/sdk/dist/contract/index.js';
import { note, rowsOf } from './tables.mjs';

/** What each limit counts, how it is written, and what meets it. */
const gib = (bytes) => `${bytes / 1024 ** 3} GiB`;
const kib = (bytes) => (bytes >= 1024 ** 2 ? `${bytes / 1024 ** 2} MiB` : `${bytes / 1024} KiB`);
const many = (count) => count.toLocaleString('en-US');
const invalid = 'INVALID_ARGUMENT';
const exhausted = 'RESOURCE_EXHAUSTED';
const explained = {
  bodyBytes: ['The body of a request, but for a part of a checkpoint and a sign-in (4 KiB)', kib, invalid],
  bodyDepth: ['Levels of nesting in the body of a request', many, invalid],
  descriptionBytes: ['`description` and `expectedOutput`, in bytes of UTF-8', kib, invalid],
  tasksPerAgent: [
    'Tasks of one agent, on its checklist and in undelivered messages; also tasks in one request',
    many,
    `${exhausted}; in one request ${invalid}`,
  ],
  taskBytesPerAgent: [
    'The texts of those tasks, and the ids in their `blocks` and `blockedBy`, in bytes of UTF-8',
    kib,
    exhausted,
  ],
  undeliveredFollowUpsPerAgent: ['Queued and deferred follow-ups of one agent', many, exhausted],
  pathDepth: ['Elements of an agent path', many, invalid],
  liveDescendantsPerRoot: ['Live agents below one root', many, exhausted],
  pageSize: ['Entries of one page; also the default', many, invalid],
  listedDescriptionLength: ['Characters of a description that a list shows', many, 'is cut'],
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
    'Personas and output schemas that undelivered follow-ups of one agent bring',
    kib,
    exhausted,
  ],
  agentsPerWait: ['Agents in one wait for many', many, invalid],
  waitSeconds: ['`timeoutSeconds` of a wait', (n) => `${n / 86_400} days`, invalid],
  outputSchemaBytes: ['`outputSchema`, in bytes', kib, invalid],
  outputSchemaNodes: ['Objects and arrays in an `outputSchema`', many, invalid],
  outputSchemaReferences: ['References (`$ref`) in an `outputSchema`', many, invalid],
  outputSchemasWaiting: ['Output schemas of one tenant that wait to be compiled on a node', many, exhausted],
  documentBytes: ['A catalog document, decoded', kib, invalid],
  catalogPageBytes: [
    'Documents of one page of a catalog list or history, but for the first',
    kib,
    'the page ends',
  ],
  documentDepth: ['Levels of nesting in a document or an output schema', many, invalid],
  maskPaths: ['Paths of an `updateMask`', many, invalid],
  checkpointPartBytes: ['A part of a checkpoint, before base64; its request may be that large', kib, invalid],
  checkpointParts: ['Parts of a checkpoint', many, invalid],
  checkpointBytesPerTenant: ['Checkpoints of one tenant', gib, exhausted],
  checkpointsPerAgent: ['Checkpoints of one agent', many, 'the oldest are dropped'],
  runsPerRunner: ['Real runs at a time on one runner', many, '`phaseReason` POOL_FULL'],
  rehearsedRunsPerRunner: ['Rehearsed runs at a time on one runner', many, '`phaseReason` POOL_FULL'],
  runnersPerToken: ['Live runners of one token', many, exhausted],
  runnersPerTenant: ['Live runners of one tenant', many, exhausted],
  labelsPerAgent: ['Labels of one agent', many, `${exhausted}; in one request ${invalid}`],
  labelKeyLength: ["A label's key, in characters", many, invalid],
  labelValueLength: ["A label's value, in characters", many, invalid],
  runMemoryMb: [
    'Memory of a run whose `vm-profile` names no `memoryMb`, or three quarters of a smaller machine',
    (n) => `${many(n)} MiB`,
    'the kernel kills a process; WARNING',
  ],
  runProcesses: ['Processes and threads of a run whose `vm-profile` names no `processes`', many, 'WARNING'],
  runScratchMb: [
    '/tmp, /run and /dev/shm of a sandbox, each, where the `vm-profile` names no `scratchMb`',
    (n) => `${many(n)} MiB`,
    'disk full; WARNING',
  ],
  turnMinutes: [
    'A turn, from claim to end, where the pool names no `maxTurnMinutes`',
    (n) => `${many(n)} minutes`,
    'outcome INTERRUPTED; WARNING',
  ],
  mostTurnMinutes: ['`maxTurnMinutes` of a pool', (n) => `${many(n)} minutes`, invalid],
  idLength: ['`followUpId`, task ids, `Idempotency-Key`, in characters', many, invalid],
  nameLength: ['Path elements, workspace, persona and catalog names, in characters', many, invalid],
  taskSubjectLength: ["A task's `subject`, in characters", many, invalid],
  taskDescriptionLength: ["A task's `description`, in characters", many, invalid],
  patternLength: ["A task's glob `activation.filesModified.pattern`, in characters", many, invalid],
  fileNameLength: ['A file name in a push that a runner reports, in characters', many, invalid],
  filesPerPush: ['Files of one push that a runner reports', many, invalid],
  justificationLength: ['`justification`, in characters', many, invalid],
  deferDays: ['How far ahead `deliverAt` may be', (n) => `${n} days`, invalid],
  timelineDays: [
    "How long a timeline, checkpoints and a diff are kept past their agent's end",
    (n) => `${n} days`,
    'OUT_OF_RANGE',
  ],
  idempotencyHours: ['How long the reply under an `Idempotency-Key` is kept', (n) => `${n} hours`, '–'],
  signInCodeMinutes: ['How long a code for a browser is good', (n) => `${n} minutes`, 'UNAUTHENTICATED'],
  firstSignInCodeMinutes: [
    'How long the one is good that `muster serve` prints',
    (n) => `${n} minutes`,
    'UNAUTHENTICATED',
  ],
  signInCodesPerKey: ['Codes of one key that are good at a time', many, 'the oldest goes'],
  sessionIdleHours: [
    'How long a session of a browser lasts without use',
    (n) => `${n} hours`,
    'UNAUTHENTICATED',
  ],
  sessionDays: ['How long a session of a browser lasts', (n) => `${n} days`, 'UNAUTHENTICATED'],
  sessionsPerKey: ['Sessions of browsers of one key', many, 'the one used longest ago goes'],
  signInCodesPerNode: ['Codes of one node that are good at a time', many, 'the oldest goes'],
  reportItems: ["Items in one runner's report", many, invalid],
  diffLength: ["A repository's diff in one report, in characters", many, invalid],
  reportedTextLength: ['Text of one reported item, response or question, in characters', many, invalid],
  remindersPerRun: ['Reminders of unfinished tasks within one run', many, '–'],
  equalReportFailures: [
    'Times in a row that the service may fail on one report of a run, with the same error',
    many,
    'the run ends FAILED with the code `REPORT_FAILED` and the incident number',
  ],
  lostRunsInARow: [
    'Runs in a row whose runner vanished, before the agent is blocked',
    many,
    '`phaseReason` BLOCKED',
  ],
  leaseSeconds: [
    "A runner's lease after its last poll (`MUSTER_LEASE_SECONDS`)",
    (n) => `${n} s`,
    'outcome LOST',
  ],
  keepAliveSeconds: [
    'How often an open wait or stream sends a few bytes (`MUSTER_KEEP_ALIVE_SECONDS`); a client that takes nothing for two of these intervals is disconnected',
    (n) => `${n} s`,
    'the connection is closed',
  ],
  openRepliesPerKey: ['Open waits, streams and polls of one key, on each node', many, exhausted],
  watchedAgentsPerKey: [
    'Agents that the open waits and streams of one key watch, on each node',
    many,
    exhausted,
  ],
};

export const limitsPage = `# Limits

${note('packages/sdk/src/contract/limits.ts')}
A single request that is too large is INVALID_ARGUMENT. A count that has grown to its limit is RESOURCE_EXHAUSTED, with
\`Retry-After\`. Requests per second and key have no limit unless \`MUSTER_RATE_LIMIT\` sets one (RESOURCE_EXHAUSTED).

| limit | value | counts | meets |
|---|---|---|---|
${rowsOf(
  limits,
  explained,
  (name, value, [counts, write, meets]) => `| \`${name}\` | ${write(value)} | ${counts} | ${meets} |`,
)}
`;
