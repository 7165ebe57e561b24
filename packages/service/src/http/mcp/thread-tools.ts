import { limits, reviewComment, type Thread, threadPlace, threadStates } from '@muster/sdk/contract';
import { truncate } from './text.ts';
import { type routeTool, type Tool, text } from './tool.ts';

const { path, line, startLine, side, body, repo, quote } = reviewComment.properties;
const threadId = text('The id that list_threads shows.');

function threadText(thread: Thread): string {
  const answer = thread.answer === 'NONE' ? 'not answered' : thread.answer.toLowerCase();
  return [
    `- ${thread.threadId}: ${threadPlace(thread)}, ${thread.state.toLowerCase()}, ${answer}`,
    ...thread.comments.map(({ author, body }) => `  ${author}: ${truncate(body, 2000)}`),
  ].join('\n');
}

type Define = ReturnType<typeof routeTool<{ readonly agent: { readonly type: 'string' } }, 'agent'>>;

/** The tools of users for review threads that read. */
export const threadReads = (define: Define): Tool[] => [
  define({
    name: 'list_threads',
    description:
      "Lists the review threads of an agent, oldest first: where each is, what was said, and whether the agent answered. A thread that is not answered is part of the agent's next review.",
    route: 'threads',
    input: {
      states: { type: 'array', items: { type: 'string', enum: threadStates } },
      limit: { type: 'integer', minimum: 1, maximum: limits.pageSize, description: 'Default 50.' },
      pageToken: { type: 'string', description: 'nextPageToken of the previous page.' },
    },
    body: ({ limit = 50, ...filter }) => ({ ...filter, pageSize: limit }),
    reply: ({ threads, nextPageToken }) => ({
      text:
        [
          ...threads.map(threadText),
          ...(nextPageToken ? [`There are more: pageToken ${nextPageToken}`] : []),
        ].join('\n') || 'No review threads.',
      data: { threads, nextPageToken },
    }),
  }),
];

/** Those that command. */
export const threadCommands = (define: Define): Tool[] => [
  define({
    name: 'create_review',
    description:
      "Comments on an agent's changes: opens a review thread per comment, and sends the agent one message with a task for each. A finished agent is reopened. Read the answers with list_threads.",
    route: 'createReview',
    input: {
      comments: {
        type: 'array',
        minItems: 1,
        maxItems: limits.commentsPerReview,
        items: {
          type: 'object',
          properties: { path, line, startLine, side, body, repo, quote },
          required: ['path', 'body'],
        },
      },
      description: { type: 'string', description: 'What to say about the review as a whole.' },
    },
    required: ['comments'],
    reply: ({ followUpId, threads }, { name }) => ({
      text: `${name} will get your review. The id of the message: ${followUpId}\n${threads.map(threadText).join('\n')}`,
      data: { id: followUpId, threads },
    }),
  }),
  define({
    name: 'reply_to_thread',
    description: 'Replies to a review thread of an agent: opens it again and tells the agent.',
    route: 'replyToThread',
    input: { threadId, body },
    required: ['threadId', 'body'],
    reply: ({ followUpId, thread }, { name }) => ({
      text: `${name} will get your reply. The id of the message: ${followUpId}`,
      data: { id: followUpId, thread },
    }),
  }),
  define({
    name: 'resolve_thread',
    description: 'Resolves a review thread of an agent, or opens it again. The agent gets no message.',
    route: 'resolveThread',
    input: { threadId, resolved: { type: 'boolean', description: 'Default true.' } },
    required: ['threadId'],
    reply: ({ thread }) => ({ text: threadText(thread), data: { thread } }),
  }),
];
