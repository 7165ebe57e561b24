import { backends } from './backend.ts';
import { agentId } from './identity.ts';
import { type Infer, reply } from './infer.ts';
import { limits } from './limits.ts';
import { errorLength } from './run.ts';
import { boolean, text, timestamp } from './scalars.ts';
import { task } from './task.ts';

/**
 * The protocol between the service and its runners. A runner polls with what it has; the poll is its heartbeat,
 * its way to claim runs, and the channel on which stops reach it. It reports what its runs do. Every report names
 * the run it speaks for; a report for a run that is no longer the agent's current one is refused (ABORTED).
 */
export const stopKinds = ['', 'INTERRUPT', 'KILL'] as const;
export type StopKind = (typeof stopKinds)[number];

/** Names one run everywhere: the agent's internal key and the run's number. */
const runRef = {
  agentKey: { type: 'string', format: 'uuid' },
  runId: { type: 'integer', minimum: 1, maximum: 2 ** 31 - 1 },
} as const;

const slots = { type: 'integer', minimum: 0, maximum: 10_000 } as const;

export const pollRequest = {
  title: 'RunnerPollRequest',
  type: 'object',
  properties: {
    runnerId: { type: 'string', format: 'uuid', description: 'Minted by the process at its start.' },
    name: {
      type: 'string',
      minLength: 1,
      maxLength: 128,
      description: 'Stable over restarts: where agents live.',
    },
    poll: {
      type: 'integer',
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Rises with each poll; an older one is refused.',
    },
    build: { type: 'string', maxLength: 128 },
    capabilities: {
      description: '`deferral`: it delivers deferred messages. `sandbox`: its agents run in a sandbox.',
      type: 'array',
      items: { type: 'string', maxLength: 64 },
      maxItems: 32,
    },
    backends: {
      description: 'The backends whose models it can run, by a real harness or by rehearsing them.',
      type: 'array',
      items: { type: 'string', enum: backends },
    },
    rehearses: { type: 'boolean', description: 'It plays every model name: it has no provider key.' },
    free: {
      description: 'How many more runs it would take.',
      type: 'object',
      properties: { real: slots, rehearsed: slots },
      required: ['real', 'rehearsed'],
    },
    runs: {
      description: 'Every run it knows and has not seen acknowledged as ended.',
      type: 'array',
      maxItems: 10_000,
      items: { type: 'object', properties: runRef, required: ['agentKey', 'runId'] },
    },
    pool: {
      type: 'string',
      maxLength: 128,
      description: 'The pool it means to serve; refused when its key is of another.',
    },
    waitMs: { type: 'integer', minimum: 0, maximum: 20_000 },
    leaving: { type: 'boolean', description: 'It drains: no claim, and its lease ends with its last run.' },
  },
  required: ['runnerId', 'name', 'poll', 'free', 'runs'],
} as const;
export type PollRequest = Infer<typeof pollRequest>;

export const claim = reply('RunnerClaim', {
  ...runRef,
  agentId,
  firstTenant: {
    type: 'boolean',
    description: 'Its tenant is the first of the service. Others use of a machine what its operator lists.',
  },
  token: { type: 'string', description: 'An `agent` key that dies with the run.' },
  attempt: { type: 'integer', description: '1 for the first run of this batch.' },
  preface: { type: 'string', description: 'How the children changed since the last run.' },
  messages: {
    type: 'array',
    items: reply('RunnerMessage', { followUpId: text, text }),
  },
  expectedOutput: text,
  persona: reply('RunnerPersona', { name: text, instructions: text }),
  backend: { type: 'string', enum: backends },
  model: text,
  models: {
    type: 'array',
    items: text,
    description: 'Models that the settings have named since the session began: a harness may still use them.',
  },
  reasoningEffort: text,
  serviceTier: text,
  fastMode: boolean,
  outputSchema: text,
  tasks: { type: 'array', items: task },
  session: {
    type: 'string',
    description: "The harness's own name of the session to resume; empty for a new one.",
  },
  homeSince: {
    type: 'integer',
    description:
      'The run since which the agent has lived on a runner of this name; what was left from before is stale.',
  },
  branch: { type: 'string', description: "The agent's own branch, in each repository of its workspace." },
  startFrom: {
    type: 'array',
    items: text,
    description: 'Branches of its parents, nearest first: the first that exists is where its own begins.',
  },
  maxTurnMinutes: { type: 'number', description: 'The longest turn of its pool; 0 is no limit.' },
  workspace: reply('RunnerWorkspace', {
    document: { type: 'object', additionalProperties: true },
    environment: { type: 'object', additionalProperties: true },
    vmProfile: { type: 'object', additionalProperties: true },
  }),
});
export type Claim = Infer<typeof claim>;

export const pollReply = reply('RunnerPollReply', {
  leaseMs: { type: 'integer' },
  claims: { type: 'array', items: claim },
  stops: {
    type: 'array',
    items: reply('RunnerStop', { ...runRef, kind: { type: 'string', enum: stopKinds } }),
  },
});
export type PollReply = Infer<typeof pollReply>;

export const reportedTypes = [
  'MESSAGE',
  'THINKING',
  'TOOL_CALL',
  'TOOL_RESULT',
  'SETUP_OUTPUT',
  'WARNING',
  'ERROR',
] as const;

export const reportItem = {
  title: 'ReportItem',
  type: 'object',
  properties: {
    type: { type: 'string', enum: reportedTypes },
    text: { type: 'string', maxLength: limits.reportedTextLength },
    data: { type: 'object', additionalProperties: true },
  },
  required: ['type'],
} as const;
export type ReportItem = Infer<typeof reportItem>;

/** Far more than a run can use, and the sums over all reports of an agent still fit what the store counts to. */
const count = { type: 'integer', minimum: 0, maximum: 1e12 } as const;

/** Outcomes a runner may report. KILLED and LOST are the service's own word. */
export const reportedOutcomes = ['COMPLETED', 'INTERRUPTED', 'FAILED', 'PARKED', 'HANDED_BACK'] as const;

/** The code of the error of a run that its runner gave up because the service failed on a report of it. */
export const reportFailed = 'REPORT_FAILED';

export const reportRequest = {
  title: 'RunnerReportRequest',
  type: 'object',
  properties: {
    runnerId: { type: 'string', format: 'uuid' },
    ...runRef,
    report: {
      type: 'integer',
      minimum: 1,
      maximum: 2 ** 31 - 1,
      description: 'Rises by one per run; a repeated one changes nothing.',
    },
    started: { type: 'boolean', description: 'The harness is open and has the batch.' },
    currentAction: { type: 'string', maxLength: 512 },
    session: { type: 'string', maxLength: 512 },
    items: { type: 'array', items: reportItem, maxItems: limits.reportItems },
    usage: {
      description: 'What was used since the last report.',
      type: 'object',
      properties: {
        inputTokens: count,
        cachedInputTokens: count,
        outputTokens: count,
        costUsd: { type: 'number', minimum: 0, maximum: 1e9 },
      },
    },
    pushes: {
      type: 'array',
      maxItems: 100,
      items: {
        type: 'object',
        properties: {
          repo: { type: 'string', maxLength: 2048, description: 'Its URL, without credentials.' },
          ref: { type: 'string', maxLength: limits.fileNameLength },
          commits: { type: 'array', items: { type: 'string', maxLength: 128 }, maxItems: limits.reportItems },
          files: {
            type: 'array',
            items: { type: 'string', maxLength: limits.fileNameLength },
            maxItems: limits.filesPerPush,
          },
        },
        required: ['ref', 'commits', 'files'],
      },
    },
    diff: {
      description: 'What the branch changed in one repository, as it stands after the last push.',
      type: 'object',
      properties: {
        workingTree: {
          type: 'boolean',
          description: 'As the working tree stands instead, with all that is not committed or not pushed.',
        },
        repo: { type: 'string', maxLength: 2048 },
        files: count,
        insertions: count,
        deletions: count,
        text: { type: 'string', maxLength: limits.diffLength },
      },
      required: ['repo', 'files', 'insertions', 'deletions', 'text'],
    },
    unpushed: {
      description: 'What no remote has, in all repositories.',
      type: 'object',
      properties: {
        commits: count,
        files: { ...count, description: 'Files with changes that are not committed.' },
        isSaved: { type: 'boolean', description: 'A checkpoint that holds it was completed.' },
      },
      required: ['commits', 'files', 'isSaved'],
    },
    end: {
      type: 'object',
      properties: {
        outcome: { type: 'string', enum: reportedOutcomes },
        response: { type: 'string', maxLength: limits.reportedTextLength },
        structuredOutput: {},
        question: { type: 'string', maxLength: limits.reportedTextLength },
        finished: { type: 'boolean' },
        error: {
          type: 'object',
          properties: {
            code: { type: 'string', maxLength: 64 },
            message: { type: 'string', maxLength: errorLength },
          },
          required: ['code', 'message'],
        },
        limitUntil: timestamp,
      },
      required: ['outcome'],
    },
    gone: { type: 'boolean', description: 'No process of this run is left.' },
    omitTasks: {
      type: 'boolean',
      description: 'Leave `tasks` of the reply empty: the checklist may be large.',
    },
  },
  required: ['runnerId', 'agentKey', 'runId', 'report'],
} as const;
export type ReportRequest = Infer<typeof reportRequest>;

export const reportReply = reply('RunnerReportReply', {
  stop: { type: 'string', enum: stopKinds },
  tasks: { type: 'array', items: task, description: 'The checklist; empty with `omitTasks`.' },
  activeTaskIds: { type: 'array', items: text, description: 'Unfinished tasks that count in this run.' },
  asked: { type: 'boolean', description: 'The agent asked a question in this run: it need not be reminded.' },
});
export type ReportReply = Infer<typeof reportReply>;

const heldRun = { runnerId: { type: 'string', format: 'uuid' }, ...runRef } as const;
const heldRunKeys = ['runnerId', 'agentKey', 'runId'] as const;
const checkpointId = { type: 'string', format: 'uuid' } as const;
const part = { type: 'integer', minimum: 0, maximum: limits.checkpointParts - 1 } as const;

/** A live run of this runner, and nothing else. */
export const heldRunRequest = {
  title: 'HeldRunRequest',
  type: 'object',
  properties: heldRun,
  required: heldRunKeys,
} as const;

/**
 * A checkpoint is an archive of an agent's session and of its work that no remote has, packed by its runner in parts.
 * It counts when it is complete; until then the one before it does.
 */
export const saveCheckpointRequest = {
  title: 'SaveCheckpointRequest',
  type: 'object',
  properties: {
    ...heldRun,
    checkpointId: {
      ...checkpointId,
      description: 'Chosen by the runner; another one drops what is not complete.',
    },
    part,
    // Without a length: the service checks its bytes.
    content: { type: 'string', description: `Base64 of 1 to ${limits.checkpointPartBytes} bytes.` },
  },
  required: [...heldRunKeys, 'checkpointId', 'part', 'content'],
} as const;

export const completeCheckpointRequest = {
  title: 'CompleteCheckpointRequest',
  type: 'object',
  properties: {
    ...heldRun,
    checkpointId,
    parts: { type: 'integer', minimum: 1, maximum: limits.checkpointParts },
    final: { type: 'boolean', description: 'The run is over: nothing changes after this checkpoint.' },
  },
  required: [...heldRunKeys, 'checkpointId', 'parts', 'final'],
} as const;

export const runnerCheckpoint = reply('RunnerCheckpoint', {
  checkpointId: text,
  runId: { type: 'integer' },
  final: boolean,
  parts: { type: 'integer' },
  bytes: { type: 'integer' },
  completedAt: timestamp,
});
export type RunnerCheckpoint = Infer<typeof runnerCheckpoint>;

export const checkpointsReply = reply('CheckpointsReply', {
  checkpoints: { type: 'array', items: runnerCheckpoint },
});

export const loadCheckpointRequest = {
  title: 'LoadCheckpointRequest',
  type: 'object',
  properties: { ...heldRun, checkpointId, part },
  required: [...heldRunKeys, 'checkpointId', 'part'],
} as const;

export const loadCheckpointReply = reply('LoadCheckpointReply', {
  content: { type: 'string', description: 'Base64.' },
});

/** Which of the agents whose folders a runner keeps have ended, so that it may clear them away. */
export const endedAgentsRequest = {
  title: 'EndedAgentsRequest',
  type: 'object',
  properties: {
    runnerId: { type: 'string', format: 'uuid' },
    agentKeys: { type: 'array', items: { type: 'string', format: 'uuid' }, maxItems: 1000 },
    forDays: {
      type: 'number',
      minimum: 0,
      maximum: 3650,
      description: 'Only agents that ended so many days ago. Default 0.',
    },
    saved: { type: 'boolean', description: 'Only agents whose last run left a checkpoint.' },
  },
  required: ['runnerId', 'agentKeys'],
} as const;

export const endedAgentsReply = reply('EndedAgentsReply', {
  ended: { type: 'array', items: text, description: 'Those that ended first come first.' },
});
