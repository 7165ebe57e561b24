import { HostError } from '../../work/host-error.ts';
import type { JsonReader } from '../../work/json-reader.ts';
import { hunkOf } from '../github-events.ts';
import type { HostComment, HostThread, Posted, RepoPath } from '../host.ts';
import type { GithubApi } from './api.ts';
import { commentIds, personOf } from './rest.ts';

/** Of one pull request. */
const limits = { threads: 1_000, comments: 5_000, reviews: 1_000 };

/** A comment has up to 65,536 characters of up to 4 bytes: so a page is always smaller than a reply may be. */
export const commentsPage = { per_page: 50 };

const threadsQuery = `query ($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      reviewThreads(first: 100, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes {
          id isResolved isOutdated viewerCanResolve path line startLine originalLine originalStartLine diffSide
          comments(first: 1) { nodes { fullDatabaseId } }
        }
      }
    }
  }
}`;

const replyMutation = `mutation ($thread: ID!, $body: String!) {
  addPullRequestReviewThreadReply(input: { pullRequestReviewThreadId: $thread, body: $body }) {
    comment { fullDatabaseId url }
  }
}`;

const resolveMutation = (name: string) => `mutation ($thread: ID!) {
  ${name}(input: { threadId: $thread }) { thread { isResolved } }
}`;

/** A thread of GraphQL, which does not say who wrote its comments by the ids that REST and deliveries have. */
interface ReviewThread extends Omit<HostThread, 'comments'> {
  /** The id of its first comment. */
  readonly root: string;
}

/**
 * The threads of a pull request: those on lines exist in GraphQL only, and their comments are joined from REST by the
 * first comment. Each comment in the conversation and each text of a review is a thread too.
 */
export async function readThreads(api: GithubApi, repo: RepoPath, number: number): Promise<HostThread[]> {
  const at = api.in(repo);
  const [threads, comments, conversation, reviews] = await Promise.all([
    reviewThreads(api, repo, number),
    api.list(
      repo,
      { path: at`/pulls/${number}/comments`, query: commentsPage },
      lineComment,
      limits.comments,
    ),
    readConversation(api, repo, number, {}),
    api.list(repo, { path: at`/pulls/${number}/reviews`, query: commentsPage }, reviewText, limits.reviews),
  ]);
  const byRoot = new Map<string, HostComment[]>();
  for (const { root, comment } of comments) {
    const known = byRoot.get(root);
    if (known) known.push(comment);
    else byRoot.set(root, [comment]);
  }
  const onLines = threads.flatMap(({ root, ...thread }) => {
    const own = (byRoot.get(root) ?? []).sort(oldestFirst);
    // Comments of a review that is not submitted yet are not in the list.
    return own.length === 0 ? [] : [{ ...thread, comments: own }];
  });
  const texts = [...conversation, ...reviews.flatMap((text) => text ?? [])].sort(oldestFirst);
  return [...onLines, ...texts.map(textThread)];
}

/** The comments of an issue or pull request as a whole. */
export function readConversation(
  api: GithubApi,
  repo: RepoPath,
  number: number,
  query: { readonly since?: string },
): Promise<HostComment[]> {
  const path = api.in(repo)`/issues/${number}/comments`;
  const request = { path, query: { ...commentsPage, ...query } };
  return api.list(repo, request, conversationComment, limits.comments);
}

export async function replyToThread(
  api: GithubApi,
  repo: RepoPath,
  number: number,
  thread: HostThread,
  body: string,
): Promise<Posted> {
  if (isText(thread)) {
    const url = thread.comments.at(-1)?.url;
    return postComment(api, repo, number, url ? `In reply to [this comment](${url}):\n\n${body}` : body);
  }
  const operation = { query: replyMutation, variables: { thread: thread.id, body } };
  return api.graphql(repo, operation, (data) => {
    const comment = data.object('addPullRequestReviewThreadReply').object('comment');
    return { id: commentIds.line(comment.text('fullDatabaseId')), url: comment.url('url') };
  });
}

export async function resolveThread(
  api: GithubApi,
  repo: RepoPath,
  thread: HostThread,
  isResolved: boolean,
): Promise<void> {
  if (isText(thread))
    throw new HostError('refused', 0, `${thread.id} is a comment, which GitHub can't resolve`);
  const name = isResolved ? 'resolveReviewThread' : 'unresolveReviewThread';
  await api.graphql(repo, { query: resolveMutation(name), variables: { thread: thread.id } }, (data) => {
    if (data.object(name).object('thread').flag('isResolved') !== isResolved)
      throw new HostError('unknown', 200, `${name} had no effect on ${thread.id}`);
  });
}

export function postComment(api: GithubApi, repo: RepoPath, number: number, body: string): Promise<Posted> {
  const path = api.in(repo)`/issues/${number}/comments`;
  return api.call(repo, { method: 'POST', path, body: { body } }, (comment) => ({
    id: commentIds.conversation(comment.number('id')),
    url: comment.url('html_url'),
  }));
}

const isText = ({ path }: HostThread): boolean => path === '';

async function reviewThreads(api: GithubApi, repo: RepoPath, number: number): Promise<ReviewThread[]> {
  const [owner, name] = repo.split('/');
  const found: ReviewThread[][] = [];
  let after: string | null = null;
  do {
    const operation = { query: threadsQuery, variables: { owner, name, number, after } };
    const page: { threads: ReviewThread[][]; next: string | null } = await api.graphql(
      repo,
      operation,
      (data) => {
        const threads = data.object('repository').object('pullRequest').object('reviewThreads');
        const info = threads.object('pageInfo');
        return {
          threads: threads.list('nodes').map(reviewThread),
          next: info.flag('hasNextPage') ? info.text('endCursor') : null,
        };
      },
    );
    found.push(...page.threads);
    // A page without threads is the last one, whatever the host says.
    after = page.threads.length > 0 ? page.next : null;
  } while (after !== null && found.length < limits.threads);
  return found.slice(0, limits.threads).flat();
}

function reviewThread(thread: JsonReader): ReviewThread[] {
  const [first] = thread.object('comments').list('nodes');
  if (!first) return [];
  return [
    {
      id: thread.text('id'),
      root: first.text('fullDatabaseId'),
      path: thread.text('path'),
      // Without a line, a later push has changed it: then the line is that of the commit that was commented on.
      line: thread.numberOrNull('line') ?? thread.numberOrNull('originalLine'),
      startLine: thread.numberOrNull('startLine') ?? thread.numberOrNull('originalStartLine'),
      side: thread.text('diffSide') === 'LEFT' ? 'OLD' : 'NEW',
      isResolved: thread.flag('isResolved'),
      canResolve: thread.flag('viewerCanResolve'),
      ...(thread.flag('isOutdated') && { isOutdated: true }),
    },
  ];
}

function lineComment(comment: JsonReader): { readonly root: string; readonly comment: HostComment } {
  const id = comment.number('id');
  const reviewId = comment.numberOrNull('pull_request_review_id');
  return {
    root: String(comment.numberOrNull('in_reply_to_id') ?? id),
    comment: {
      ...writtenBy(comment),
      id: commentIds.line(id),
      createdAt: comment.text('created_at'),
      updatedAt: comment.text('updated_at'),
      reviewId: reviewId === null ? '' : String(reviewId),
      ...hunkOf(comment),
    },
  };
}

function conversationComment(comment: JsonReader): HostComment {
  return {
    ...writtenBy(comment),
    id: commentIds.conversation(comment.number('id')),
    createdAt: comment.text('created_at'),
    updatedAt: comment.text('updated_at'),
    reviewId: '',
  };
}

/** Null for a review without a text, and for one that is not submitted yet. */
function reviewText(review: JsonReader): HostComment | null {
  if (review.textOrEmpty('body').trim() === '' || review.text('state').toUpperCase() === 'PENDING')
    return null;
  const submittedAt = review.text('submitted_at');
  const id = review.number('id');
  return {
    ...writtenBy(review),
    id: commentIds.review(id),
    createdAt: submittedAt,
    updatedAt: submittedAt,
    reviewId: String(id),
  };
}

const writtenBy = (comment: JsonReader): Pick<HostComment, 'author' | 'body' | 'url'> => ({
  author: personOf(comment.find('user')),
  body: comment.textOrEmpty('body'),
  url: comment.url('html_url'),
});

/** A comment that is a thread by itself. */
const textThread = (comment: HostComment): HostThread => ({
  id: comment.id,
  path: '',
  line: null,
  startLine: null,
  side: 'NEW',
  isResolved: false,
  canResolve: false,
  comments: [comment],
});

const oldestFirst = (a: HostComment, b: HostComment): number =>
  Date.parse(a.createdAt) - Date.parse(b.createdAt);
