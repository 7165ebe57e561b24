import { limits } from './limits.ts';
import { providerAccountName } from './provider-account.ts';
import { errorLength } from './run.ts';
import { runRef, stopKinds } from './runner.ts';
import { type Infer, list, reply, requestWith, text, timestamp } from './schema.ts';
import { task } from './task.ts';
import { partialFields } from './timeline.ts';

/** What a runner tells the service about its runs. */
export const reportedTypes = [
  'MESSAGE',
  'THINKING',
  'TOOL_CALL',
  'TOOL_RESULT',
  'PLAN',
  'COMPACTION',
  'SETUP_OUTPUT',
  'WARNING',
  'ERROR',
] as const;

export const reportItem = requestWith('ReportItem', ['type'], {
  type: { type: 'string', enum: reportedTypes },
  text: { type: 'string', maxLength: limits.reportedTextLength },
  data: { type: 'object', additionalProperties: true },
});
export type ReportItem = Infer<typeof reportItem>;

/** More than a run can use; sums over all reports of an agent still fit into the database. */
const count = { type: 'integer', minimum: 0, maximum: 1e12 } as const;

const amounts = {
  inputTokens: count,
  cachedInputTokens: count,
  outputTokens: count,
  costUsd: { type: 'number', minimum: 0, maximum: 1e9 },
} as const;

const usagePart = {
  type: 'object',
  properties: {
    model: { type: 'string', maxLength: 256, description: 'The model that answered, as it is priced.' },
    account: { type: 'string', maxLength: 300, description: 'As in `accounts` of the polls.' },
    ...amounts,
    unpricedTokens: {
      ...count,
      description: 'Of those tokens, the ones of models whose price is not known.',
    },
    estimated: { type: 'boolean', description: 'A subscription pays: the cost is what the price list says.' },
  },
} as const;
export type UsagePart = Infer<typeof usagePart>;

const usage = {
  type: 'object',
  properties: {
    ...amounts,
    parts: {
      type: 'array',
      maxItems: limits.usageParts,
      items: usagePart,
      description: "What each model and account used of it. The rest counts for the agent's model.",
    },
  },
} as const;

/** Outcomes that a runner may report. Only the service sets KILLED and LOST. */
export const reportedOutcomes = ['COMPLETED', 'INTERRUPTED', 'FAILED', 'PARKED', 'HANDED_BACK'] as const;

/** The error code of a run that its runner ended because the service kept failing on a report. */
export const reportFailed = 'REPORT_FAILED';

const reachedName = { type: 'string', maxLength: 300 } as const;

export const reportRequest = requestWith('RunnerReportRequest', ['runnerId', 'agentKey', 'runId', 'report'], {
  runnerId: { type: 'string', format: 'uuid' },
  ...runRef,
  report: {
    type: 'integer',
    minimum: 1,
    maximum: 2 ** 31 - 1,
    description: 'Increases by one with each report of the run; a repeated report changes nothing.',
  },
  started: { type: 'boolean', description: 'The harness is running and has the batch.' },
  traceId: {
    type: 'string',
    pattern: '^[0-9a-f]{32}$',
    maxLength: 32,
    expected: '32 hexadecimal digits',
    description: 'The trace in which the runner records the run, if it sends traces to a collector.',
  },
  account: {
    ...providerAccountName,
    description: 'The account that the run uses from now on, as in `accountStates` of the polls.',
  },
  currentAction: { type: 'string', maxLength: 512 },
  session: { type: 'string', maxLength: 512 },
  items: { type: 'array', items: reportItem, maxItems: limits.reportItems },
  usage: { description: 'What was used since the last report.', ...usage },
  late: {
    description:
      'For a run that has ended without a last report of its runner, because that was lost or the run was killed. A later process of the runner may send it too. Only `items` may accompany it; ABORTED (RUN_NOT_ENDED) until the run has ended.',
    type: 'object',
    properties: {
      usage: {
        description: 'All that the run used. It counts once, however often it is reported.',
        ...usage,
      },
      missing: { ...count, description: 'How many items the runner may have lost.' },
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
        tip: { type: 'string', maxLength: 128, description: 'The commit that the branch is at now.' },
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
    description: 'The changes on the branch in one repository, as of the last push.',
    type: 'object',
    properties: {
      workingTree: {
        type: 'boolean',
        description: 'The changes in the working tree instead, with uncommitted and unpushed ones.',
      },
      repo: { type: 'string', maxLength: 2048 },
      files: count,
      insertions: count,
      deletions: count,
      text: { type: 'string', maxLength: limits.diffLength },
    },
    required: ['repo', 'files', 'insertions', 'deletions', 'text'],
  },
  context: {
    description: "How full the model's context was at its last request.",
    type: 'object',
    properties: {
      usedTokens: count,
      windowTokens: { ...count, description: '0 if it is not known: then the last one counts.' },
    },
    required: ['usedTokens', 'windowTokens'],
  },
  unpushed: {
    description: 'Work that no remote has, in all repositories.',
    type: 'object',
    properties: {
      commits: count,
      files: { ...count, description: 'Files with changes that are not committed.' },
      isSaved: { type: 'boolean', description: 'A checkpoint was completed since the last report.' },
      isPartial: { type: 'boolean', description: 'The newest checkpoint does not have all of it.' },
    },
    required: ['commits', 'files', 'isSaved'],
  },
  steers: {
    description: 'What became of steering messages that this run was given.',
    type: 'array',
    maxItems: limits.steersPerRun,
    items: {
      type: 'object',
      properties: {
        followUpId: { type: 'string', maxLength: limits.idLength },
        sequence: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
        taken: {
          type: 'boolean',
          description: 'The model gets it in this turn. Otherwise it stays queued for a later run.',
        },
      },
      required: ['followUpId', 'sequence', 'taken'],
    },
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
      limitAccount: {
        ...reachedName,
        description: 'The accounts that were at the limit, as in `accounts` of the polls.',
      },
      awaits: {
        ...reachedName,
        description:
          'What the run failed to reach, as in `reached`. The agent is retried when another run on this runner reaches it.',
      },
    },
    required: ['outcome'],
  },
  reached: {
    description:
      'Providers and git hosts that this run reached, such as `provider:anthropic` and `git:github.com`. Some agents that wait on this runner for one of them are retried immediately.',
    type: 'array',
    items: reachedName,
    maxItems: 100,
  },
  gone: { type: 'boolean', description: 'No process of this run is left.' },
  omitTasks: {
    type: 'boolean',
    description: 'Leaves `tasks` in the reply empty, because the checklist may be large.',
  },
});
export type ReportRequest = Infer<typeof reportRequest>;

export const reportReply = reply('RunnerReportReply', {
  stop: { type: 'string', enum: stopKinds },
  tasks: { ...list(task), description: 'The checklist; empty with `omitTasks`.' },
  activeTaskIds: { ...list(text), description: 'Unfinished tasks that are active in this run.' },
  awaited: {
    ...list(text),
    description: 'Of `reached`, what agents still wait for. The next run that reaches it reports it again.',
  },
  asked: { type: 'boolean', description: 'The agent asked a question in this run, so it needs no reminder.' },
  leaseMs: {
    type: 'integer',
    description:
      "The new length of the runner's lease, if this report has extended it as a poll does; else 0.",
  },
});
export type ReportReply = Infer<typeof reportReply>;
/** What a report of a run leads to, without what concerns its runner. */
export type ReportResult = Omit<ReportReply, 'awaited' | 'leaseMs'>;

/**
 * Pieces of texts that runs are producing. They are passed on to open streams and not stored. A piece of a run that is not
 * a live run of this runner, or of an agent that nobody watches, is dropped.
 */
export const partialsRequest = requestWith('RunnerPartialsRequest', ['runnerId', 'partials'], {
  runnerId: { type: 'string', format: 'uuid' },
  partials: {
    type: 'array',
    maxItems: limits.partialsPerRequest,
    items: {
      type: 'object',
      properties: { ...runRef, ...partialFields },
      required: ['agentKey', 'runId', 'key', 'type', 'offset', 'text'],
    },
  },
});
export type SentPartial = Infer<typeof partialsRequest>['partials'][number];
