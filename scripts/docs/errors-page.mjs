import { statusCodes } from '../../packages/sdk/dist/contract/index.js';
import { note, rowsOf } from './markdown.mjs';

/** When each code is sent, and what to do. Missing and unknown codes are an error. */
const meanings = {
  CANCELLED: ['The client closed the connection before the reply.', 'Nothing.'],
  UNKNOWN: [
    'Any other failure, such as one of a proxy. The service itself does not send it.',
    'Check before you retry.',
  ],
  INVALID_ARGUMENT: [
    'The request is invalid: a field, a size, a media type, a stop for a turn that is not running.',
    'Fix the field that `details` names. A retry fails again.',
  ],
  DEADLINE_EXCEEDED: ['A timeout on the way. The service itself does not send it.', 'Retry.'],
  NOT_FOUND: [
    'No such agent, resource, task or path; or a follow-up for an agent that has ended.',
    'Check the name. A retry fails again until someone creates it.',
  ],
  ALREADY_EXISTS: [
    'A live agent has this name, or an id or `Idempotency-Key` was used before with other content.',
    'Use another name or id.',
  ],
  PERMISSION_DENIED: [
    'The key is valid, but its role does not allow this or it belongs to another tenant; or a sign-in does not come from a page of the service.',
    'Use a key with the right role. The error does not say whether the object exists.',
  ],
  RESOURCE_EXHAUSTED: [
    'A count or a rate has reached its limit (see [limits](limits.md)).',
    'Wait as long as `Retry-After` says, or free capacity.',
  ],
  FAILED_PRECONDITION: [
    'The request is valid, but the current state does not allow it: another generation, a blocked task, a parent that has ended.',
    'Read the current state and decide again.',
  ],
  ABORTED: [
    'A runner reports on a run that it no longer has, or sends an older poll; or a newer checkpoint replaced the requested one.',
    'The runner stops that run; a download starts over.',
  ],
  OUT_OF_RANGE: [
    'Timeline entries before this sequence were deleted; `details` has `firstSequence`.',
    'Start again from `firstSequence`.',
  ],
  UNIMPLEMENTED: ['The path exists, but not with this method.', 'Use the method of the route.'],
  INTERNAL: [
    'An error of the service. The message has an incident number, the log has the cause.',
    'Report it.',
  ],
  UNAVAILABLE: [
    'The database is temporarily unavailable, or the service is shutting down.',
    'Retry the same request after `Retry-After`. With a `followUpId` or an `Idempotency-Key` it has one effect.',
  ],
  UNAUTHENTICATED: [
    'The key is missing, malformed, unknown, revoked or expired; or a sign-in code was used or has expired.',
    'Send `Authorization: Bearer mst_<key_id>.<secret>`; for another code, `muster open`.',
  ],
};

/** The types of a precondition that refusals have. */
const preconditions = {
  ACCOUNT_SWITCH: 'the browser is signed in as another account',
  NO_SESSION: 'the request was sent with a key, and only a browser with a session can subscribe',
  AGENT_ENDED: 'the agent, or its parent, has ended',
  AGENT_KILLED: 'the agent was killed, which is final',
  AGENT_LIVE: 'the agent, or one below it, has not ended',
  AGENT_REPLACED: 'another agent has the name now',
  BUILTIN: 'the resource is built in',
  CHECKPOINT_COMPLETE: 'the checkpoint is complete without this part',
  CODE_HOST: 'the code host refused it',
  CREATOR: 'the account that created the schedule may no longer start work',
  DEFERRAL_UNSUPPORTED: 'the runner of the agent does not know scheduled messages',
  FOLLOW_UP_DELIVERED: 'the message was delivered already',
  GENERATION: 'the resource has another generation',
  INTEGRATION: 'the integration cannot be used',
  NOTHING_PUSHED: 'the agent has not pushed a branch',
  NOT_BLOCKED: 'the agent is neither blocked, retrying nor rate limited',
  NOT_IN_WORKSPACE: 'the repository is not one of the workspace',
  NO_INTEGRATION: 'no integration covers the repository, or its change requests are off',
  LAST_ADMIN: 'no other account with a valid key would be an admin of the tenant',
  OWN_ACCOUNT: 'nobody disables its own account or changes its own role',
  OWN_RUNNER: 'the runner is that of the service itself',
  PARTS_MISSING: 'parts of the checkpoint are missing',
  PAUSED: 'the notification is paused',
  QUEUE_CHANGED: 'the queue has other messages than the request names',
  READ_ONLY: 'the resource is written by the service only',
  TASK_BLOCKED: 'a task that blocks this one is not completed',
  TASK_STATUS: 'the task may not change to this status',
  TENANT_CLOSED: 'the tenant moves to another installation',
};

/** The reasons of an ErrorInfo. */
const reasons = {
  ACCOUNT_SWITCH: 'as above, with the `account` of the code',
  AGENT_ENDED: 'a message to an agent that has ended, with its `phase`',
  ATTACHMENTS_FULL: 'the images of the tenant, or of the account, have reached their quota',
  BEFORE_FIRST_ENTRY: 'entries were deleted, with `firstSequence`',
  CATALOG_FULL: 'the documents of the kind have reached their limit',
  CHECKPOINTS_FULL: 'the checkpoints have reached their quota',
  CHECKPOINT_REPLACED: 'a newer checkpoint has replaced this one',
  NOT_A_SHARE_LINK: 'the key is not the secret of a share link',
  RUN_FENCED: 'the runner no longer has the run',
  NOT_COUNTED: 'what was spent of a budget is being counted; the same request succeeds later',
  RUN_NOT_ENDED: 'a late report of a run that has not ended',
  STALE_POLL: 'a newer poll of the runner has arrived',
  STORAGE_FULL: 'the storage has reached its quota',
};

const namesOf = (names) =>
  [
    '| name | meaning |',
    '|---|---|',
    ...Object.entries(names).map(([name, text]) => `| \`${name}\` | ${text} |`),
  ].join('\n');

export const errorsPage = `# Errors

${note('packages/sdk/src/contract/errors.ts')}
Every reply that is not 2xx has this body. Each \`code\` always comes with the same HTTP status:

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
| \`google.rpc.BadRequest\` | INVALID_ARGUMENT, if a field is wrong | \`fieldViolations[]\` of \`field\` (such as \`tasks[2].blockedBy[0]\`) and \`description\` |
| \`google.rpc.PreconditionFailure\` | FAILED_PRECONDITION | \`violations[]\` of \`type\`, \`subject\` and \`description\` |
| \`google.rpc.ErrorInfo\` | where the code alone is not enough | \`reason\`, \`domain\` (always \`muster\`), \`metadata\` |

\`type\` of a precondition:

${namesOf(preconditions)}

\`reason\`:

${namesOf(reasons)}

Messages are for people and may change; match \`code\`, \`@type\`, \`type\` and \`reason\`. The message of an
error of the service or of its database (500, 503) has an incident number: the log line with that number has the cause.
`;
