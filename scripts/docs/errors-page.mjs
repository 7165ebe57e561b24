import { statusCodes } from '../../packages/sdk/dist/contract/index.js';
import { note, rowsOf } from './tables.mjs';

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
    'The key is good and its role does not allow this, or it is another tenant; or a sign-in that no page of the service asked for.',
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
    'The database is unavailable for a moment, or the service is shutting down.',
    'Retry the same request after `Retry-After`. With a `followUpId` or an `Idempotency-Key` it has one effect.',
  ],
  UNAUTHENTICATED: [
    'The key is missing, malformed, wrong, revoked or expired; or a sign-in code was used or has expired.',
    'Send `Authorization: Bearer mst_<key_id>.<secret>`; for another code, `muster open`.',
  ],
};

export const errorsPage = `# Errors

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

Types of a precondition: \`AGENT_ENDED\`, \`BUILTIN\`, \`CHECKPOINT_COMPLETE\`, \`DEFERRAL_UNSUPPORTED\`, \`GENERATION\`,
\`PARTS_MISSING\`, \`READ_ONLY\`, \`TASK_BLOCKED\`, \`TASK_STATUS\`. Reasons: \`RUN_FENCED\`, \`STALE_POLL\`, \`NOT_CLAIMABLE\`,
\`CHECKPOINT_REPLACED\`, \`CHECKPOINTS_FULL\`, \`BEFORE_FIRST_ENTRY\` (with \`firstSequence\`).

A message is for people and may change; match \`code\`, \`@type\`, \`type\` and \`reason\`. A 5xx message holds an incident number
and nothing of the cause: the log line with that number has it.
`;
