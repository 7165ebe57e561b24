import type { AgentEntry, AgentStatus, SpawnReply } from '../contract/agent.ts';
import type { Service } from '../contract/backend.ts';
import type { PendingFollowUp } from '../contract/follow-up.ts';
import type { Caller as Identity } from '../contract/identity.ts';
import type { BodyOf, ReplyOf, RouteName } from '../contract/routes.ts';
import type { Run, StopMode } from '../contract/run.ts';
import type { TaskInput, UpdateTaskRequest } from '../contract/task.ts';
import type { ReviewRequest, Thread, ThreadState } from '../contract/thread.ts';
import type { TimelineEntry, TimelinePartial } from '../contract/timeline.ts';
import { AccessClient } from './access.ts';
import { agentStream } from './agent-stream.ts';
import { AttachmentClient } from './attachments.ts';
import { Caller, type CallSettings, type ClientOptions, type Page, readPages } from './caller.ts';
import { CatalogClient } from './catalog.ts';
import type { ServerSentEvent } from './event-parser.ts';
import {
  type CallOptions,
  type FollowUpInput,
  type ListInput,
  type ListStreamSettings,
  listBody,
  type NewestInput,
  type RetryManyInput,
  type SpawnInput,
  type SpawnSettings,
  schemaText,
  type TimelineInput,
  type TimelineStreamSettings,
  timeText,
  type WaitInput,
  type WaitManyInput,
} from './inputs.ts';
import { ScheduleClient } from './schedules.ts';
import { SignInClient } from './sign-ins.ts';
import { TriggerClient } from './triggers.ts';
import { type AgentRef, agentIdOf, compareInt64, type Int64Input, mintId } from './values.ts';

const pageEntries = 1000;
/** Larger than every sequence. */
const endOfTimeline = '9223372036854775807';

/** All operations of the service as methods. */
export class MusterClient extends AccessClient {
  readonly catalog: CatalogClient;
  readonly attachments: AttachmentClient;
  readonly schedules: ScheduleClient;
  readonly signIns: SignInClient;
  readonly triggers: TriggerClient;
  readonly #caller: Caller;

  constructor(options: ClientOptions) {
    const caller = new Caller(options);
    super(caller);
    this.#caller = caller;
    this.catalog = new CatalogClient(caller);
    this.attachments = new AttachmentClient(caller);
    this.schedules = new ScheduleClient(caller);
    this.signIns = new SignInClient(caller);
    this.triggers = new TriggerClient(caller);
  }

  /** Calls any route of the contract once: no retry, no default timeout, and the body as it is. */
  call<N extends RouteName>(name: N, body: BodyOf<N>, options: CallOptions = {}): Promise<ReplyOf<N>> {
    return this.#caller.connection.call(name, { ...options, signal: options.signal, body });
  }

  whoami(settings: CallSettings = {}): Promise<Identity> {
    return this.#caller.call('whoami', undefined, settings);
  }

  /** The backends that are ready, and the live runners of the caller's tenant. */
  service(settings: CallSettings = {}): Promise<Service> {
    return this.#caller.call('service', undefined, settings);
  }

  spawn({ path, outputSchema, ...fields }: SpawnInput, settings: SpawnSettings = {}): Promise<SpawnReply> {
    const agentId = path === undefined ? undefined : agentIdOf(path);
    const body = { ...fields, agentId, outputSchema: schemaText(outputSchema) };
    const headers = { 'idempotency-key': settings.idempotencyKey ?? mintId() };
    return this.#caller.call('spawn', body, settings, { headers });
  }

  status(agent: AgentRef, settings: CallSettings = {}): Promise<AgentStatus> {
    return this.#caller.call('status', { agentId: agentIdOf(agent) }, settings);
  }

  /**
   * Resolves when the agent needs attention, a message was answered or a run has ended, however long that takes. The
   * signal ends the wait; after `timeoutSeconds` it resolves with the current status, which then has `timedOut`.
   */
  wait(agent: AgentRef, { signal, ...until }: WaitInput = {}): Promise<AgentStatus> {
    return this.#caller.call('wait', { agentId: agentIdOf(agent), ...until }, { signal });
  }

  /** Resolves with the first agent that needs attention, or with the last when `all` of them do. */
  waitMany(
    agents: readonly AgentRef[] | { readonly below: AgentRef },
    { signal, ...until }: WaitManyInput = {},
  ): Promise<AgentStatus> {
    const which =
      'below' in agents ? { below: agentIdOf(agents.below) } : { agentIds: agents.map(agentIdOf) };
    return this.#caller.call('waitMany', { ...which, ...until }, { signal });
  }

  /** Merges labels into those of the agent; an empty value removes a label. */
  label(
    agent: AgentRef,
    labels: Readonly<Record<string, string>>,
    settings: CallSettings = {},
  ): Promise<ReplyOf<'labels'>> {
    return this.#caller.call('labels', { agentId: agentIdOf(agent), labels }, settings);
  }

  /** Sends a message; a string is its text. */
  queue(
    agent: AgentRef,
    message: string | FollowUpInput,
    settings: CallSettings = {},
  ): Promise<ReplyOf<'queue'>> {
    const { persona, deliverAt, outputSchema, ...fields } =
      typeof message === 'string' ? ({ description: message } as FollowUpInput) : message;
    const body = {
      agentId: agentIdOf(agent),
      ...fields,
      followUpId: fields.followUpId || mintId(),
      agent: persona,
      deliverAt: timeText(deliverAt),
      outputSchema: schemaText(outputSchema),
    };
    return this.#caller.call('queue', body, settings);
  }

  removeFollowUp(
    agent: AgentRef,
    followUpId: string,
    settings: CallSettings = {},
  ): Promise<ReplyOf<'removeFollowUp'>> {
    return this.#caller.call('removeFollowUp', { agentId: agentIdOf(agent), followUpId }, settings);
  }

  /** Changes the order of the queue; `followUpIds` are all queued messages. */
  orderQueue(
    agent: AgentRef,
    followUpIds: readonly string[],
    settings: CallSettings = {},
  ): Promise<ReplyOf<'orderQueue'>> {
    return this.#caller.call(
      'orderQueue',
      { agentId: agentIdOf(agent), followUpIds: [...followUpIds] },
      settings,
    );
  }

  /** One page of undelivered messages with their whole texts, queued ones first. */
  listFollowUps(
    agent: AgentRef,
    page: { readonly pageSize?: number; readonly pageToken?: string } = {},
    settings: CallSettings = {},
  ): Promise<ReplyOf<'listFollowUps'>> {
    return this.#caller.call('listFollowUps', { agentId: agentIdOf(agent), ...page }, settings);
  }

  /** All undelivered messages, page by page. */
  followUps(agent: AgentRef, settings: CallSettings = {}): AsyncGenerator<PendingFollowUp, void, void> {
    return readPages(undefined, async (pageToken) => {
      const { followUps, nextPageToken } = await this.listFollowUps(agent, { pageToken }, settings);
      return { entries: followUps, nextPageToken };
    });
  }

  /** One message in any state, with its run and the answer. */
  followUp(agent: AgentRef, followUpId: string, settings: CallSettings = {}): Promise<ReplyOf<'followUp'>> {
    return this.#caller.call('followUp', { agentId: agentIdOf(agent), followUpId }, settings);
  }

  clearFollowUps(agent: AgentRef, settings: CallSettings = {}): Promise<ReplyOf<'clearFollowUps'>> {
    return this.#caller.call('clearFollowUps', { agentId: agentIdOf(agent) }, settings);
  }

  /** Interrupts the turn with this number, the `runCount` of the status. */
  stopTurn(
    agent: AgentRef,
    turn: { readonly runId: Int64Input; readonly mode?: StopMode },
    settings: CallSettings = {},
  ): Promise<ReplyOf<'stopTurn'>> {
    return this.#caller.call('stopTurn', { agentId: agentIdOf(agent), ...turn }, settings, {
      // The repeated request is refused if the first one has stopped the turn.
      whenRepeated: async () => {
        const { runCount } = await this.status(agent, settings);
        return compareInt64(runCount, turn.runId) >= 0 ? {} : undefined;
      },
    });
  }

  /** Ends the agent and all agents below it. */
  kill(agent: AgentRef, settings: CallSettings = {}): Promise<ReplyOf<'kill'>> {
    return this.#caller.call('kill', { agentId: agentIdOf(agent) }, settings);
  }

  /** Runs the messages of a blocked agent again, and those of a retrying one immediately. */
  retry(agent: AgentRef, settings: CallSettings = {}): Promise<ReplyOf<'retry'>> {
    return this.#caller.call('retry', { agentId: agentIdOf(agent) }, settings);
  }

  /** Retries these agents, or all that have the labels and are in the workspace. Returns what became of each. */
  retryMany(agents: RetryManyInput, settings: CallSettings = {}): Promise<ReplyOf<'retryMany'>> {
    const body = 'map' in agents ? { agentIds: agents.map(agentIdOf) } : agents;
    return this.#caller.call('retryMany', body, settings);
  }

  /** Deletes an agent that has ended, and the agents below it, with everything that they have. */
  delete(agent: AgentRef, settings: CallSettings = {}): Promise<ReplyOf<'deleteAgent'>> {
    return this.#caller.call('deleteAgent', { agentId: agentIdOf(agent) }, settings);
  }

  /** Reopens an agent that finished or failed: it is idle again, with its session, checklist and branch. */
  reopen(agent: AgentRef, settings: CallSettings = {}): Promise<ReplyOf<'reopen'>> {
    return this.#caller.call('reopen', { agentId: agentIdOf(agent) }, settings);
  }

  /** One page, newest first. */
  list(filter: ListInput = {}, settings: CallSettings = {}): Promise<Page<AgentEntry>> {
    return this.#caller.call('list', listBody(filter), settings);
  }

  listAll(filter: ListInput = {}, settings: CallSettings = {}): AsyncGenerator<AgentEntry, void, void> {
    return readPages(filter.pageToken, (pageToken) => this.list({ ...filter, pageToken }, settings));
  }

  /** Yields the entries of the list, then each entry again when it changes; reconnects by itself. */
  listStream(
    filter: ListInput = {},
    { signal, onOpen, onWhole, onGone }: ListStreamSettings = {},
  ): AsyncGenerator<AgentEntry, void, void> {
    const all: ListInput = { ...filter, phases: [], includeTerminal: true, pageToken: '' };
    return agentStream(
      {
        events: (inner) => this.#caller.events('listStream', inner, () => ({ body: listBody(filter) })),
        allAgents: (inner) => this.listAll(all, { signal: inner }),
        onOpen,
        ...{ onWhole, onGone },
      },
      signal,
    );
  }

  /** One page, oldest first. */
  timeline(agent: AgentRef, input: TimelineInput = {}): Promise<ReplyOf<'timeline'>> {
    const { after, before, limit, types, text } = input;
    const range = { afterSequence: after, beforeSequence: before, limit, types: types && [...types], text };
    return this.#caller.call('timeline', { agentId: agentIdOf(agent), ...range }, input);
  }

  /** All entries up to now, oldest first. */
  timelineAll(
    agent: AgentRef,
    input: Omit<TimelineInput, 'before' | 'limit'> = {},
  ): AsyncGenerator<TimelineEntry, void, void> {
    return readPages(String(input.after ?? '0'), async (after) => {
      const { entries, nextSequence } = await this.timeline(agent, { ...input, after, limit: pageEntries });
      return { entries, nextPageToken: nextSequence };
    });
  }

  /** The newest entries, oldest of them first; reads as many pages as needed. */
  async timelineNewest(agent: AgentRef, input: NewestInput): Promise<TimelineEntry[]> {
    let newest: TimelineEntry[] = [];
    let before = endOfTimeline;
    for (;;) {
      const limit = input.limit - newest.length;
      const { entries, nextSequence } = await this.timeline(agent, { ...input, before, limit });
      newest = [...entries, ...newest];
      if (nextSequence === '' || newest.length >= input.limit) return newest;
      before = nextSequence;
    }
  }

  /**
   * Yields all entries, then new ones, each once; reconnects by itself. `onPartial` gets what the agent is producing:
   * give it to `LiveTexts`.
   */
  async *timelineStream(
    agent: AgentRef,
    { after = '0', signal, onOpen, onPartial }: TimelineStreamSettings = {},
  ): AsyncGenerator<TimelineEntry, void, void> {
    let last = String(after);
    const body = { agentId: agentIdOf(agent), afterSequence: last };
    const prepare = () => ({ body, headers: { 'last-event-id': last } });
    for await (const event of this.#caller.events('timelineStream', signal, prepare)) {
      if (event === null) {
        onOpen?.();
        continue;
      }
      if (event.type === 'partial') {
        onPartial?.(JSON.parse(event.data) as TimelinePartial);
        continue;
      }
      if (!isEntry(event)) continue;
      const entry = JSON.parse(event.data) as TimelineEntry;
      if (compareInt64(entry.sequence, last) <= 0) continue;
      last = entry.sequence;
      yield entry;
    }
  }

  /** Newest first, at most 1,000 at a time; or one run with its whole response. */
  runs(
    agent: AgentRef,
    input: CallSettings & {
      readonly runId?: Int64Input | undefined;
      readonly before?: Int64Input | undefined;
      readonly limit?: number | undefined;
    } = {},
  ): Promise<ReplyOf<'runs'>> {
    const { runId, before, limit } = input;
    return this.#caller.call('runs', { agentId: agentIdOf(agent), runId, beforeRunId: before, limit }, input);
  }

  runsAll(agent: AgentRef, { signal, timeoutMs }: CallSettings = {}): AsyncGenerator<Run, void, void> {
    return readPages(undefined, async (token) => {
      const before = token === '' ? undefined : token;
      const { runs, more } = await this.runs(agent, { signal, timeoutMs, before, limit: pageEntries });
      return { entries: runs, nextPageToken: (more && runs.at(-1)?.runId) || '' };
    });
  }

  diff(agent: AgentRef, input: { readonly context?: number } & CallSettings = {}): Promise<ReplyOf<'diff'>> {
    return this.#caller.call('diff', { agentId: agentIdOf(agent), context: input.context }, input);
  }

  /** One part of the newest checkpoint; `checkpointId` is that of the earlier parts. */
  checkpoint(
    agent: AgentRef,
    input: { readonly checkpointId?: string; readonly part?: number } & CallSettings = {},
  ): Promise<ReplyOf<'checkpoint'>> {
    const { checkpointId, part = 0 } = input;
    return this.#caller.call('checkpoint', { agentId: agentIdOf(agent), part, checkpointId }, input);
  }

  tasks(agent: AgentRef, settings: CallSettings = {}): Promise<ReplyOf<'tasks'>> {
    return this.#caller.call('tasks', { agentId: agentIdOf(agent) }, settings);
  }

  createTasks(
    agent: AgentRef,
    tasks: readonly TaskInput[],
    settings: CallSettings = {},
  ): Promise<ReplyOf<'createTasks'>> {
    return this.#caller.call('createTasks', { agentId: agentIdOf(agent), tasks: [...tasks] }, settings);
  }

  /** Changes the fields that are given. */
  updateTask(
    agent: AgentRef,
    id: string,
    changes: Omit<UpdateTaskRequest, 'agentId' | 'id'>,
    settings: CallSettings = {},
  ): Promise<ReplyOf<'updateTask'>> {
    return this.#caller.call('updateTask', { agentId: agentIdOf(agent), ...changes, id }, settings);
  }

  /** One page of review threads, oldest first. */
  listThreads(
    agent: AgentRef,
    filter: Omit<BodyOf<'threads'>, 'agentId'> = {},
    settings: CallSettings = {},
  ): Promise<ReplyOf<'threads'>> {
    return this.#caller.call('threads', { agentId: agentIdOf(agent), ...filter }, settings);
  }

  /** All review threads, page by page. */
  threads(
    agent: AgentRef,
    filter: { readonly states?: readonly ThreadState[] } = {},
    settings: CallSettings = {},
  ): AsyncGenerator<Thread, void, void> {
    return readPages(undefined, async (pageToken) => {
      const page = { states: filter.states && [...filter.states], pageToken };
      const { threads, nextPageToken } = await this.listThreads(agent, page, settings);
      return { entries: threads, nextPageToken };
    });
  }

  /** Opens a review thread per comment, and tells the agent about all of them with one message. */
  createReview(
    agent: AgentRef,
    review: Omit<ReviewRequest, 'agentId'>,
    settings: CallSettings = {},
  ): Promise<ReplyOf<'createReview'>> {
    const followUpId = review.followUpId || mintId();
    return this.#caller.call('createReview', { agentId: agentIdOf(agent), ...review, followUpId }, settings);
  }

  /** Opens the thread again and tells the agent; with the key of the agent's run, answers the thread. */
  replyToThread(
    agent: AgentRef,
    threadId: string,
    body: string,
    settings: CallSettings & { readonly followUpId?: string | undefined } = {},
  ): Promise<ReplyOf<'replyToThread'>> {
    const followUpId = settings.followUpId || mintId();
    const request = { agentId: agentIdOf(agent), threadId, body, followUpId };
    return this.#caller.call('replyToThread', request, settings);
  }

  /** Resolves a thread; `resolved` false opens it again. */
  resolveThread(
    agent: AgentRef,
    threadId: string,
    resolved = true,
    settings: CallSettings = {},
  ): Promise<ReplyOf<'resolveThread'>> {
    return this.#caller.call('resolveThread', { agentId: agentIdOf(agent), threadId, resolved }, settings);
  }

  /** With the key of a run: asks a question, which the agent needs answered when the run has ended. */
  ask(agent: AgentRef, question: string, settings: CallSettings = {}): Promise<ReplyOf<'ask'>> {
    return this.#caller.call('ask', { agentId: agentIdOf(agent), question }, settings);
  }

  /** With the key of a run: declares that its agent failed. */
  fail(agent: AgentRef, message: string, settings: CallSettings = {}): Promise<ReplyOf<'fail'>> {
    return this.#caller.call('fail', { agentId: agentIdOf(agent), message }, settings);
  }

  /** With the key of a run: declares that its agent finished. */
  finish(agent: AgentRef, text = '', settings: CallSettings = {}): Promise<ReplyOf<'finish'>> {
    return this.#caller.call('finish', { agentId: agentIdOf(agent), text }, settings);
  }
}

/** Entries have names in capitals. A newer service may send other events. */
const isEntry = ({ type }: ServerSentEvent): boolean => /^[A-Z_]+$/.test(type);
