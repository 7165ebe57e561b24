/**
 * Writes the pages that are tables of the contract: docs/errors.md and docs/limits.md. With `--check` it writes
 * nothing and fails when a page is out of date. The contract has to be built first (`npm run build`).
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { limits, statusCodes } from '../packages/sdk/dist/contract/index.js';

/** When a caller meets each code, and what to do. A code that the table lacks, or one too many, is an error here. */
const meanings = {
  CANCELLED: ['The client went away before the reply.', 'Nothing; nobody is left to read it.'],
  UNKNOWN: ['A failure that has no better name. The service itself does not send it.', 'Retry with care.'],
  INVALID_ARGUMENT: [
    'The request is wrong in itself, whatever the state: a field, a size, a media type, a stop for a turn that is not running.',
    'Mend the field that `details` names. A retry fails again.',
  ],
  DEADLINE_EXCEEDED: ['A time limit passed on the way. The service itself sends none.', 'Retry.'],
  NOT_FOUND: [
    'No such agent, resource, task or path; or a follow-up for an agent that has ended.',
    'Check the name. A retry fails again until someone creates it.',
  ],
  ALREADY_EXISTS: [
    'A live agent holds the identity, or an id or `Idempotency-Key` was used before with other content.',
    'Use another name or id.',
  ],
  PERMISSION_DENIED: [
    'The key is good and its role does not allow this, or it is another tenant.',
    'Use a key that may. Whether the thing exists is not said.',
  ],
  RESOURCE_EXHAUSTED: [
    'A count or a rate is at its limit (see [limits](limits.md)).',
    'Wait as long as `Retry-After` says, or make room.',
  ],
  FAILED_PRECONDITION: [
    'The request is right and the state forbids it: a generation that differs, a blocked task, a parent that has ended.',
    'Read the state again and decide anew.',
  ],
  ABORTED: [
    'A runner speaks for a run that is no longer its own, or with an older poll.',
    'The runner stops that run.',
  ],
  OUT_OF_RANGE: [
    'The timeline before this sequence is no longer kept; `details` has `firstSequence`.',
    'Start again from `firstSequence`.',
  ],
  UNIMPLEMENTED: ['The path is known, but not with this method.', 'Use the method of the route.'],
  INTERNAL: [
    'A fault of the service. The message has an incident number, the log has the cause.',
    'Report it.',
  ],
  UNAVAILABLE: [
    'The store is away for a moment, or the service is shutting down.',
    'Retry the same request after `Retry-After`. With a `followUpId` or an `Idempotency-Key` it has one effect.',
  ],
  UNAUTHENTICATED: [
    'The key is missing, malformed, wrong, revoked or expired.',
    'Send `Authorization: Bearer mst_<key_id>.<secret>`.',
  ],
};

/** What each limit counts, how it is written, and what meets it. */
const kib = (bytes) => (bytes >= 1024 ** 2 ? `${bytes / 1024 ** 2} MiB` : `${bytes / 1024} KiB`);
const many = (count) => count.toLocaleString('en-US');
const invalid = 'INVALID_ARGUMENT';
const exhausted = 'RESOURCE_EXHAUSTED';
const explained = {
  bodyBytes: ['The body of a request, but for a saved session', kib, invalid],
  descriptionBytes: ['`description` and `expectedOutput`, in bytes of UTF-8', kib, invalid],
  tasksPerAgent: [
    'Tasks of one agent, on its checklist and in undelivered messages; also tasks in one request',
    many,
    `${exhausted}; in one request ${invalid}`,
  ],
  undeliveredFollowUpsPerAgent: ['Queued and deferred follow-ups of one agent', many, exhausted],
  pathDepth: ['Elements of an agent path', many, invalid],
  liveDescendantsPerRoot: ['Live agents below one root', many, exhausted],
  pageSize: ['Entries of one page; also the default', many, invalid],
  agentsPerWait: ['Agents in one wait for many', many, invalid],
  outputSchemaBytes: ['`outputSchema`, in bytes', kib, invalid],
  documentBytes: ['A catalog document, decoded', kib, invalid],
  documentDepth: ['Levels of nesting in a document or an output schema', many, invalid],
  maskPaths: ['Paths of an `updateMask`', many, invalid],
  sessionBytes: ['A saved harness session, before base64; its request may be that large', kib, invalid],
  runsPerRunner: ['Real runs at a time on one runner', many, '`phaseReason` POOL_FULL'],
  rehearsedRunsPerRunner: ['Rehearsed runs at a time on one runner', many, '`phaseReason` POOL_FULL'],
  idLength: ['`followUpId`, task ids, `Idempotency-Key`, in characters', many, invalid],
  nameLength: ['Path elements, workspace, persona and catalog names, in characters', many, invalid],
  taskSubjectLength: ["A task's `subject`, in characters", many, invalid],
  taskDescriptionLength: ["A task's `description`, in characters", many, invalid],
  justificationLength: ['`justification`, in characters', many, invalid],
  deferDays: ['How far ahead `deliverAt` may be', (n) => `${n} days`, invalid],
  timelineDays: [
    "How long a timeline, a session and a diff are kept past their agent's end",
    (n) => `${n} days`,
    'OUT_OF_RANGE',
  ],
  idempotencyHours: ['How long the reply under an `Idempotency-Key` is kept', (n) => `${n} hours`, '–'],
  reportItems: ["Items in one runner's report", many, invalid],
  diffLength: ["A repository's diff in one report, in characters", many, invalid],
  reportedTextLength: ['Text of one reported item, response or question, in characters', many, invalid],
  remindersPerRun: ['Reminders of unfinished tasks within one run', many, '–'],
  lostRunsInARow: [
    'Runs in a row whose runner vanished, before the agent fails',
    many,
    '`phase` PHASE_FAILED',
  ],
  leaseSeconds: [
    "A runner's lease after its last poll (`MUSTER_LEASE_SECONDS`)",
    (n) => `${n} s`,
    'outcome LOST',
  ],
};

const note = (table) =>
  `<!-- Made by scripts/generate-docs.mjs from ${table}. Change that, not this page. -->\n`;

function rowsOf(table, known, rowOf) {
  const names = Object.keys(table);
  const stray = [
    ...names.filter((name) => !(name in known)),
    ...Object.keys(known).filter((name) => !(name in table)),
  ];
  if (stray.length > 0)
    throw new Error(`scripts/generate-docs.mjs and the contract differ: ${stray.join(', ')}`);
  return names.map((name) => rowOf(name, table[name], known[name])).join('\n');
}

const errorsPage = `# Errors

${note('packages/sdk/src/contract/errors.ts')}
Every reply that is not 2xx has this body, and \`code\` and the HTTP status always belong together:

\`\`\`json
{"code": 5, "message": "the agent nobody does not exist", "details": []}
\`\`\`

| code | name | HTTP | when | what to do |
|---|---|---|---|---|
${rowsOf(
  statusCodes,
  meanings,
  (name, { code, http }, [when, what]) => `| ${code} | ${name} | ${http} | ${when} | ${what} |`,
)}

## Details

\`details\` is usually empty. Each entry has \`@type\`, which is \`type.googleapis.com/\` and one of these names:

| name | with | fields |
|---|---|---|
| \`google.rpc.BadRequest\` | INVALID_ARGUMENT, where a field is at fault | \`fieldViolations[]\` of \`field\` (such as \`tasks[2].blockedBy[0]\`) and \`description\` |
| \`google.rpc.PreconditionFailure\` | FAILED_PRECONDITION | \`violations[]\` of \`type\`, \`subject\` and \`description\` |
| \`google.rpc.ErrorInfo\` | where a machine needs a finer reason | \`reason\`, \`domain\` (always \`muster\`), \`metadata\` |

Types of a precondition: \`AGENT_ENDED\`, \`BUILTIN\`, \`DEFERRAL_UNSUPPORTED\`, \`GENERATION\`, \`READ_ONLY\`, \`TASK_BLOCKED\`,
\`TASK_STATUS\`. Reasons: \`RUN_FENCED\`, \`STALE_POLL\`, \`NOT_CLAIMABLE\`, \`BEFORE_FIRST_ENTRY\` (with \`firstSequence\`).

A message is for people and may change; match \`code\`, \`@type\`, \`type\` and \`reason\`. A 5xx message holds an incident number
and nothing of the cause: the log line with that number has it.
`;

const limitsPage = `# Limits

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

const isCheck = process.argv.includes('--check');
let stale = 0;
for (const [name, page] of [
  ['errors', errorsPage],
  ['limits', limitsPage],
]) {
  const file = new URL(`../docs/${name}.md`, import.meta.url);
  const current = read(file);
  if (current === page) continue;
  if (isCheck) {
    stale += 1;
    process.stderr.write(`docs/${name}.md is out of date: run node scripts/generate-docs.mjs\n`);
  } else {
    writeFileSync(file, page);
    process.stdout.write(`wrote docs/${name}.md\n`);
  }
}
process.exit(stale > 0 ? 1 : 0);

function read(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
