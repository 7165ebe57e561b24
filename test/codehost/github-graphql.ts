import { readFileSync } from 'node:fs';
import {
  buildSchema,
  type DocumentNode,
  execute,
  GraphQLError,
  type GraphQLSchema,
  parse,
  validate,
} from 'graphql';
import type { Caller } from './emulated-github.ts';

/** The threads of the host, which the schema's fields are read from. */
export interface ThreadStore {
  threads(repo: string, number: number, caller: Caller): Promise<readonly StoredThread[]>;
  /** Adds a reply as the caller; returns the new comment. */
  reply(thread: string, body: string, caller: Caller): Promise<StoredComment>;
  setResolved(thread: string, isResolved: boolean, caller: Caller): Promise<StoredThread>;
}

export interface StoredComment {
  readonly id: number;
  readonly author: string;
  readonly body: string;
  readonly url: string;
}

export interface StoredThread {
  readonly id: string;
  readonly path: string;
  readonly line: number | null;
  readonly startLine: number | null;
  readonly isResolved: boolean;
  readonly isOutdated: boolean;
  readonly mayResolve: boolean;
  readonly comments: readonly StoredComment[];
}

/** An error with a type, as GitHub reports those that are not about the query. */
export class TypedError extends Error {
  readonly type: string;

  constructor(type: string, message: string) {
    super(message);
    this.type = type;
  }
}

let built: GraphQLSchema | undefined;

/** Building it takes a third of a second. */
function schema(): GraphQLSchema {
  const file = new URL('../../node_modules/@octokit/graphql-schema/schema.graphql', import.meta.url);
  built ??= buildSchema(readFileSync(file, 'utf8'), { assumeValid: true, assumeValidSDL: true });
  return built;
}

/** What each query is, or what is wrong with it: checking one against this schema takes longer than executing it. */
const checked = new Map<string, DocumentNode | readonly GraphQLError[]>();

function check(query: string): DocumentNode | readonly GraphQLError[] {
  const known = checked.get(query);
  if (known) return known;
  let result: DocumentNode | readonly GraphQLError[];
  try {
    const document = parse(query);
    const errors = validate(schema(), document);
    result = errors.length > 0 ? errors : document;
  } catch (error) {
    if (!(error instanceof GraphQLError)) throw error;
    result = [error];
  }
  checked.set(query, result);
  return result;
}

/** Executes a request with GitHub's own schema, so that a query that GitHub would refuse is refused here too. */
export async function executeGraphql(
  { query, variables }: { readonly query: string; readonly variables?: Record<string, unknown> },
  caller: Caller,
  store: ThreadStore,
): Promise<unknown> {
  const document = check(query);
  const { data, errors } =
    'kind' in document
      ? await execute({
          schema: schema(),
          document,
          rootValue: rootOf(caller, store),
          ...(variables && { variableValues: variables }),
        })
      : { data: undefined, errors: document };
  if (!errors) return { data };
  return {
    ...(data && { data }),
    errors: errors.map(({ message, path, originalError }) => ({
      message,
      ...(path && { path }),
      ...(originalError instanceof TypedError
        ? { type: originalError.type }
        : { extensions: { code: 'undefinedField' } }),
    })),
  };
}

interface Page {
  readonly first?: number;
  readonly after?: string | null;
}

const rootOf = (caller: Caller, store: ThreadStore): object => ({
  repository: ({ owner, name }: { owner: string; name: string }) => ({
    pullRequest: async ({ number }: { number: number }) => {
      const threads = await store.threads(`${owner}/${name}`, number, caller);
      return { reviewThreads: (page: Page) => connection(threads.map(threadFields), page) };
    },
  }),
  addPullRequestReviewThreadReply: async ({ input }: { input: ReplyInput }) => ({
    comment: commentFields(await store.reply(input.pullRequestReviewThreadId, input.body, caller)),
  }),
  resolveReviewThread: async ({ input }: { input: { threadId: string } }) => ({
    thread: threadFields(await store.setResolved(input.threadId, true, caller)),
  }),
  unresolveReviewThread: async ({ input }: { input: { threadId: string } }) => ({
    thread: threadFields(await store.setResolved(input.threadId, false, caller)),
  }),
});

interface ReplyInput {
  readonly pullRequestReviewThreadId: string;
  readonly body: string;
}

const threadFields = ({ comments, mayResolve, ...thread }: StoredThread): object => ({
  ...thread,
  originalLine: thread.line,
  originalStartLine: thread.startLine,
  diffSide: 'RIGHT',
  subjectType: 'LINE',
  viewerCanReply: true,
  viewerCanResolve: mayResolve && !thread.isResolved,
  comments: (page: Page) => connection(comments.map(commentFields), page),
});

const commentFields = ({ id, body, url }: StoredComment): object => ({
  fullDatabaseId: String(id),
  body,
  url,
});

/** GitHub refuses pages of more than a hundred. */
function connection(nodes: readonly object[], { first, after }: Page): object {
  if (first === undefined || first < 1 || first > 100)
    throw new TypedError('EXCESSIVE_PAGINATION', 'Requesting more than 100 records is not allowed.');
  const start = after ? Number(after) : 0;
  const end = start + first;
  return {
    nodes: nodes.slice(start, end),
    totalCount: nodes.length,
    pageInfo: { hasNextPage: end < nodes.length, endCursor: end < nodes.length ? String(end) : null },
  };
}
