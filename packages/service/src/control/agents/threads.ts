import { limits, type ReviewComment, type Thread as ShownThread, threadStates } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Queued, QueueFollowUp } from '../../domain/commands/queue-follow-up.ts';
import type { Done } from '../../domain/decision.ts';
import { invalid, isRefusal, notFound, type Refusal } from '../../domain/refusal.ts';
import { noThread } from '../../domain/review.ts';
import type { Comment, Review, Thread, ThreadComments, ThreadPlace } from '../../domain/thread.ts';
import { mintId, mintTaskId } from '../../lib/ids.ts';
import { digestOf } from '../../lib/token.ts';
import type { AgentKey } from '../../store/agent-store.ts';
import { threadOf } from '../../store/rows.ts';
import type { FoundRow } from '../../store/statements/find-agents.ts';
import { hasMore } from '../../store/statements/shared-sql.ts';
import { readRepositories, readReview, readThread, readThreads } from '../../store/statements/threads.ts';
import type { Principal } from '../access/principal.ts';
import type { Transact } from '../batches/transact.ts';
import type { Operation } from '../operation.ts';
import type { PageTokens } from './page-tokens.ts';
import type { Targets } from './targets.ts';

export interface ThreadsOptions {
  readonly database: pg.Pool;
  readonly transact: Transact;
  readonly pageTokens: PageTokens;
  readonly targets: Targets;
}

const firstId = '00000000-0000-0000-0000-000000000000';

/** Review threads, of people who use this API. */
export class Threads {
  readonly #options: ThreadsOptions;

  constructor(options: ThreadsOptions) {
    this.#options = options;
  }

  readonly threads: Operation<'threads'> = async (caller, request) => {
    const { database, pageTokens, targets } = this.#options;
    const agent = await targets.find(caller, request.agentId);
    if (isRefusal(agent)) return agent;
    const list = `threads/${agent.id}`;
    const after = request.pageToken ? pageTokens.open(list, request.pageToken) : firstId;
    if (isRefusal(after)) return after;
    const states = request.states?.length ? request.states : threadStates;
    const { pageSize = 0 } = request;
    const page = [after, pageSize || limits.pageSize, limits.pageBytes] as const;
    const rows = await readThreads(database, agent.tenant, agent.id, states, ...page);
    const last = hasMore(rows) ? rows.at(-1) : undefined;
    return {
      threads: rows.map((row) => shownThread(threadOf(row))),
      nextPageToken: last ? pageTokens.seal(list, last.id) : '',
    };
  };

  readonly createReview: Operation<'createReview'> = async (caller, request) => {
    const { database, targets } = this.#options;
    const agent = await targets.commandable(caller, request.agentId, 'others');
    if (isRefusal(agent)) return agent;
    const { tenant, id } = agent;
    const [brief] = await readRepositories(database, tenant, id);
    const threads: ThreadComments[] = [];
    for (const [i, comment] of request.comments.entries()) {
      const place = placeOf(comment, `comments[${i}]`, brief?.repos ?? []);
      if (isRefusal(place)) return place;
      threads.push({ id: mintId(), place, comments: [commentOf(caller, comment.body)] });
    }
    const { description = '', followUpId } = request;
    const digest = digestOf({ description, places: threads.map(contentOf) });
    const review = { threads, tellAgain: '' };
    const queued = await this.#tell(caller, agent, followUpId, description, digest, review);
    if (isRefusal(queued)) return queued;
    const rows = await readReview(database, tenant, id, queued.followUpId);
    return { ...queued, threads: rows.map((row) => shownThread(threadOf(row))) };
  };

  /** A person opens the thread again and tells the agent. The agent's own run answers the thread. */
  readonly replyToThread: Operation<'replyToThread'> = async (caller, request) => {
    const agent = await this.#options.targets.commandable(caller, request.agentId);
    if (isRefusal(agent)) return agent;
    const { body, followUpId } = request;
    const threadId = request.threadId.toLowerCase();
    const own = caller.role === 'agent' ? caller.agent : null;
    if (own?.id && own.path.join('/') === agent.path) {
      const key = { tenant: own.tenant, id: own.id };
      const command = { type: 'answerThread', runId: caller.run ?? 0, threadId, body } as const;
      const answered = await this.#options.transact.command<Done>({ key }, command);
      return isRefusal(answered) ? answered : this.#shown(key, threadId, { followUpId: '' });
    }
    const threads = [{ id: threadId, comments: [commentOf(caller, body)] }];
    const digest = digestOf({ threadId, body });
    const queued = await this.#tell(caller, agent, followUpId, '', digest, { threads });
    if (isRefusal(queued)) return queued;
    return this.#shown(agent, threadId, { followUpId: queued.followUpId });
  };

  readonly resolveThread: Operation<'resolveThread'> = async (caller, request) => {
    const { agentId, threadId: given, resolved = true } = request;
    const agent = await this.#options.targets.commandable(caller, agentId, 'others');
    if (isRefusal(agent)) return agent;
    const threadId = given.toLowerCase();
    const state = resolved ? 'RESOLVED' : 'OPEN';
    const command = { type: 'resolveThread', threadId, state } as const;
    const done = await this.#options.transact.command<Done>({ key: keyOf(agent) }, command);
    return isRefusal(done) ? done : this.#shown(agent, threadId, {});
  };

  /** Sends the agent a message about threads. One that finished or failed is reopened. */
  #tell(
    caller: Principal,
    agent: FoundRow,
    followUpId: string | undefined,
    description: string,
    digest: string,
    review: Omit<Review, 'taskIds'>,
  ): Promise<Queued | Refusal> {
    const command: QueueFollowUp = {
      type: 'queue',
      followUpId: followUpId || mintId(),
      ...(!followUpId && { minted: true }),
      description,
      tasks: [],
      change: {},
      preempt: false,
      replace: false,
      deliverAt: null,
      digest,
      review: { ...review, taskIds: mintTaskId() },
      reopen: true,
      ...(caller.role === 'agent' && { byAgent: true }),
    };
    return this.#options.transact.command<Queued>({ key: keyOf(agent) }, command);
  }

  async #shown<R extends object>(
    { tenant, id }: AgentKey,
    threadId: string,
    reply: R,
  ): Promise<(R & { thread: ShownThread }) | Refusal> {
    const [row] = await readThread(this.#options.database, tenant, id, threadId);
    return row ? { ...reply, thread: shownThread(threadOf(row)) } : notFound(noThread(threadId));
  }
}

const keyOf = ({ tenant, id }: AgentKey): AgentKey => ({ tenant, id });

function placeOf(
  { repo = '', path, line = 0, startLine = 0, side = 'NEW', quote = '' }: ReviewComment,
  field: string,
  repos: readonly string[],
): ThreadPlace | Refusal {
  const [only = ''] = repos;
  if (repo === '' && repos.length > 1)
    return invalid(`${field}.repo`, `name one of the agent's repositories: ${repos.join(', ')}`);
  if (repo !== '' && !repos.includes(repo))
    return invalid(
      `${field}.repo`,
      repos.length === 0
        ? 'the agent has no repository; leave it out'
        : `must be one of the agent's repositories: ${repos.join(', ')}`,
    );
  if (startLine > line)
    return invalid(`${field}.startLine`, `must be at most line, the last commented line (${line})`);
  return {
    repo: repo || only,
    path,
    line,
    startLine: startLine || line,
    side,
    quote,
    changeRequest: '',
    hostId: '',
    url: '',
  };
}

const commentOf = ({ role, account, agent }: Principal, body: string): Omit<Comment, 'at' | 'run'> => ({
  author: role === 'agent' ? (agent?.path.join('/') ?? '') : account,
  kind: role === 'agent' ? 'AGENT' : 'PERSON',
  permission: role,
  body,
  url: '',
  hostId: '',
});

/** What a comment says and where, without the id that each try mints. */
const contentOf = ({ place, comments }: ThreadComments) => ({
  ...place,
  bodies: comments.map((c) => c.body),
});

const shownThread = ({ id, hostId, openedBy: _, toldBy: __, comments, ...thread }: Thread): ShownThread => ({
  ...thread,
  threadId: id,
  source: hostId === '' ? 'DASHBOARD' : 'HOST',
  comments: comments.map(({ hostId: ___, permission: ____, run, ...comment }) => ({
    ...comment,
    runId: String(run ?? 0),
  })),
});
