import { followUpId, followUpState } from './follow-up.ts';
import { agentIdIn } from './identity.ts';
import { limits } from './limits.ts';
import {
  boolean,
  type Infer,
  int64,
  list,
  pageIn,
  reply,
  request,
  requestWith,
  text,
  timestamp,
} from './schema.ts';

/** Review threads: what people say about a place in an agent's changes, and what the agent answers. */

export const threadStates = ['OPEN', 'RESOLVED'] as const;
export type ThreadState = (typeof threadStates)[number];

export const threadAnswers = ['NONE', 'PENDING', 'ANSWERED', 'DECLINED'] as const;
export type ThreadAnswer = (typeof threadAnswers)[number];

export const threadSides = ['OLD', 'NEW'] as const;
export type ThreadSide = (typeof threadSides)[number];

const threadState = { title: 'ThreadState', type: 'string', enum: threadStates } as const;
const threadSide = {
  title: 'ThreadSide',
  type: 'string',
  enum: threadSides,
  description: 'Which file the lines are of: before the change, or after it (`NEW`, the default).',
} as const;

const threadComment = reply('ThreadComment', {
  author: { type: 'string', description: 'The account of a person, or the path of an agent.' },
  kind: { title: 'ThreadCommentKind', type: 'string', enum: ['PERSON', 'AGENT'] },
  body: text,
  at: timestamp,
  runId: { ...int64, description: 'The run that answered; 0 in the comment of a person.' },
  url: { type: 'string', description: 'On the code host; else empty.' },
});
export type ThreadComment = Infer<typeof threadComment>;

const thread = reply('Thread', {
  threadId: text,
  repo: { type: 'string', description: 'The URL of the repository.' },
  path: { type: 'string', description: 'The file; empty for a comment on the whole change.' },
  line: { type: 'integer', description: 'The last commented line; 0 for the whole file.' },
  startLine: { type: 'integer', description: 'The first commented line; the same as `line` for one line.' },
  side: threadSide,
  quote: { type: 'string', description: 'The commented lines, as they were.' },
  state: threadState,
  answer: {
    title: 'ThreadAnswer',
    type: 'string',
    enum: threadAnswers,
    description:
      '`PENDING`: the agent has it and has not answered. `NONE`: the agent ended its turn without an answer, or does not have it yet; the next review repeats it.',
  },
  source: {
    title: 'ThreadSource',
    type: 'string',
    enum: ['DASHBOARD', 'HOST'],
    description: '`DASHBOARD`: made with this API. `HOST`: made on a code host.',
  },
  changeRequest: { type: 'string', description: 'The name of its change-request record; else empty.' },
  url: { type: 'string', description: 'On the code host; else empty.' },
  createdAt: timestamp,
  comments: { ...list(threadComment), description: 'Oldest first.' },
});
export type Thread = Infer<typeof thread>;

/** `src/login.ts:12-20` */
export function threadPlace({ path, line, startLine }: Pick<Thread, 'path' | 'line' | 'startLine'>): string {
  if (line === 0) return path || 'the whole change';
  return startLine > 0 && startLine < line ? `${path}:${startLine}-${line}` : `${path}:${line}`;
}

/** For sorting: oldest first, those of one review by their place. */
export const compareThreads = (a: Thread, b: Thread): number =>
  compare(a.createdAt, b.createdAt) || compare(a.path, b.path) || a.line - b.line;
const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b));

export const threadsRequest = request('ThreadsRequest', {
  agentId: agentIdIn,
  states: { type: 'array', items: threadState, description: 'Only threads in these states.' },
  ...pageIn,
});
export const threadsReply = reply('ThreadsReply', {
  threads: {
    ...list(thread),
    description: 'By id: those made in Muster oldest first, those of code hosts between them.',
  },
  nextPageToken: text,
});

const lineIn = {
  type: 'integer',
  minimum: 0,
  maximum: 2 ** 31 - 1,
  expected: 'a line number, counted from 1; 0 for none',
} as const;

const bodyIn = {
  type: 'string',
  maxLength: limits.commentLength,
  pattern: '\\S',
  expected: `1 to ${limits.commentLength} characters that are not all spaces`,
} as const;

export const reviewComment = requestWith('ReviewComment', ['path', 'body'], {
  repo: {
    type: 'string',
    maxLength: 2048,
    description: 'The URL of the repository. Leave it out if the agent has one repository, or none.',
  },
  path: {
    type: 'string',
    maxLength: limits.fileNameLength,
    pattern: '^(?!/)(?!(.*/)?\\.\\.(/|$))[^\\u0000-\\u001f\\u007f]+$',
    expected: 'a path relative to the repository, without ".." and control characters',
  },
  line: { ...lineIn, description: 'The last commented line; 0 or nothing for the whole file.' },
  startLine: { ...lineIn, description: 'The first commented line, if there are several.' },
  side: threadSide,
  quote: {
    type: 'string',
    maxLength: limits.threadQuoteLength,
    description: 'The commented lines, to show to the agent.',
  },
  body: bodyIn,
});
export type ReviewComment = Infer<typeof reviewComment>;

/** Opens a thread per comment, and tells the agent about all of them with one follow-up. */
export const reviewRequest = requestWith('ReviewRequest', ['comments'], {
  agentId: agentIdIn,
  description: { type: 'string', description: 'What to say about the review as a whole.' },
  followUpId,
  comments: {
    type: 'array',
    items: reviewComment,
    minItems: 1,
    maxItems: limits.commentsPerReview,
    expected: `1 to ${limits.commentsPerReview} comments`,
  },
});
export type ReviewRequest = Infer<typeof reviewRequest>;
export const reviewReply = reply('ReviewReply', {
  followUpId: text,
  state: followUpState,
  threads: { ...list(thread), description: 'The threads that this review opened.' },
});

const threadIdIn = {
  type: 'string',
  pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$',
  expected: 'the `threadId` of a thread of this agent',
} as const;

export const replyToThreadRequest = requestWith('ReplyToThreadRequest', ['threadId', 'body'], {
  agentId: agentIdIn,
  threadId: threadIdIn,
  body: bodyIn,
  followUpId,
});
export const replyToThreadReply = reply('ReplyToThreadReply', {
  followUpId: {
    type: 'string',
    description: "The message that tells the agent; empty for the agent's own reply.",
  },
  thread,
});

export const resolveThreadRequest = requestWith('ResolveThreadRequest', ['threadId'], {
  agentId: agentIdIn,
  threadId: threadIdIn,
  resolved: { ...boolean, description: 'Default true; false opens the thread again.' },
});
export const threadReply = reply('ThreadReply', { thread });
