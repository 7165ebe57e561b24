import type { AgentEntry, AgentStatus, ListRequest, SpawnReply } from '../contract/agent.ts';
import type { PendingFollowUp } from '../contract/follow-up.ts';
import type { Caller as Identity } from '../contract/identity.ts';
import type { BodyOf, ReplyOf, RouteName } from '../contract/routes.ts';
import type { Run, StopMode } from '../contract/run.ts';
import type { Service } from '../contract/service.ts';
import type { BrowserSession, SignedIn, SignInCode } from '../contract/sign-in.ts';
import type { TaskInput, UpdateTaskRequest } from '../contract/task.ts';
import type { TimelineEntry } from '../contract/timeline.ts';
import { type AgentRef, agentIdOf } from './agent-ref.ts';
import { agentStream } from './agent-stream.ts';
import { Caller, type CallSettings, type ClientOptions, settingsOf } from './caller.ts';
import { CatalogClient } from './catalog.ts';
import type {
  CallOptions,
  FollowUpInput,
  ListInput,
  ListStreamSettings,
  NewestInput,
  OutputSchema,
  SpawnInput,
  SpawnSettings,
  StreamSettings,
  TimelineInput,
  WaitInput,
  WaitManyInput,
} from './inputs.ts';
import { compareInt64, type Int64Input } from './int64.ts';
import { mintId } from './mint-id.ts';
import { newestEntries } from './newest-entries.ts';
import { type Page, pages } from './pages.ts';

const pageEntries = 1000;

/** Everything that Muster does, as methods. */
export class MusterClient {
  readonly catalog: CatalogClient;
  readonly #caller: Caller;

  constructor(options: ClientOptions) {
    this.#caller = new Caller(options);
    this.catalog = new CatalogClient(this.#caller);
  }

  /** Any route of the contract as it is on the wire, sent once: no retry, no time limit, nothing filled in. */
  call<N extends RouteName>(name: N, body: BodyOf<N>, options: CallOptions = {}): Promise<ReplyOf<N>> {
    const { signal } = options;
    return this.#caller.connection.ask(name, { ...options, signal, body });
  }

  whoami(settings: CallSettings = {}): Promise<Identity> {
    return this.#caller.ask('whoami', settingsOf(settings));
  }

  /** Which backends are ready, and the live runners that serve the caller's tenant. */
  service(settings: CallSettings = {}): Promise<Service> {
    return this.#caller.ask('service', settingsOf(settings));
  }

  /** A code that signs a browser in with this client's key, once: at `/#code=<code>` of the service. */
  signInCode(settings: CallSettings = {}): Promise<SignInCode> {
    return this.#caller.ask('signInCode', { body: {}, ...settingsOf(settings) });
  }

  /** Who is signed in with this browser. */
  session(settings: CallSettings = {}): Promise<SignedIn> {
    return this.#caller.ask('session', settingsOf(settings));
  }

  /** Ends the session of this browser. */
  signOut(settings: CallSettings = {}): Promise<ReplyOf<'signOut'>> {
    return this.#caller.ask('signOut', {
      body: {},
      whenRepeated: async ({ status }) => (status === 'UNAUTHENTICATED' ? {} : undefined),
      ...settingsOf(settings),
    });
  }

  /** Where you are signed in with a browser, newest first; for admins also others, by their `account`. */
  listSessions(
    filter: BodyOf<'listSessions'> = {},
    settings: CallSettings = {},
  ): Promise<Page<BrowserSession>> {
    return this.#caller.ask('listSessions', { body: filter, ...settingsOf(settings) });
  }

  /** Ends a session, wherever it is open. One that is gone is NOT_FOUND. */
  revokeSession(id: string, settings: CallSettings = {}): Promise<ReplyOf<'revokeSession'>> {
    return this.#caller.ask('revokeSession', {
      body: { id },
      whenRepeated: async ({ status }) => (status === 'NOT_FOUND' ? {} : undefined),
      ...settingsOf(settings),
    });
  }

  spawn(spawn: SpawnInput, settings: SpawnSettings = {}): Promise<SpawnReply> {
    const { path, outputSchema, ...fields } = spawn;
    const { idempotencyKey = mintId() } = settings;
    const body = {
      ...fields,
      ...(path !== undefined && { agentId: agentIdOf(path) }),
      ...schemaField(outputSchema),
    };
    return this.#caller.ask('spawn', {
      body,
      headers: { 'idempotency-key': idempotencyKey },
      ...settingsOf(settings),
    });
  }

  status(agent: AgentRef, settings: CallSettings = {}): Promise<AgentStatus> {
    return this.#caller.ask('status', { body: { agentId: agentIdOf(agent) }, ...settingsOf(settings) });
  }

  /**
   * Resolves when the agent needs attention, a message was answered or a run has ended, however long that takes. The
   * signal ends the wait; after `timeoutSeconds` it resolves with the current record, which then has `timedOut`.
   */
  wait(agent: AgentRef, { signal, ...waited }: WaitInput = {}): Promise<AgentStatus> {
    return this.#caller.ask('wait', { body: { agentId: agentIdOf(agent), ...waited }, signal });
  }

  /** Resolves with the first of them that needs attention; or with the last, when all of them do. */
  waitMany(
    agents: readonly AgentRef[] | { readonly below: AgentRef },
    { signal, ...waited }: WaitManyInput = {},
  ): Promise<AgentStatus> {
    const whom = 'below' in agents ? { below: agentIdOf(agents.below) } : { agentIds: agents.map(agentIdOf) };
    return this.#caller.ask('waitMany', { body: { ...whom, ...waited }, signal });
  }

  /** Merges labels into those that the agent has; an empty value removes one. */
  label(
    agent: AgentRef,
    labels: Readonly<Record<string, string>>,
    settings: CallSettings = {},
  ): Promise<ReplyOf<'labels'>> {
    const body = { agentId: agentIdOf(agent), labels };
    return this.#caller.ask('labels', { body, ...settingsOf(settings) });
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
      ...(persona !== undefined && { agent: persona }),
      ...(deliverAt !== undefined && {
        deliverAt: timeText(deliverAt),
      }),
      ...schemaField(outputSchema),
    };
    return this.#caller.ask('queue', { body, ...settingsOf(settings) });
  }

  removeFollowUp(
    agent: AgentRef,
    followUpId: string,
    settings: CallSettings = {},
  ): Promise<ReplyOf<'removeFollowUp'>> {
    return this.#caller.ask('removeFollowUp', {
      body: { agentId: agentIdOf(agent), followUpId },
      ...settingsOf(settings),
    });
  }

  /** One page of undelivered messages, with their whole texts; queued ones first. */
  listFollowUps(
    agent: AgentRef,
    page: { readonly pageSize?: number; readonly pageToken?: string } = {},
    settings: CallSettings = {},
  ): Promise<ReplyOf<'listFollowUps'>> {
    return this.#caller.ask('listFollowUps', {
      body: { agentId: agentIdOf(agent), ...page },
      ...settingsOf(settings),
    });
  }

  /** Every undelivered message, page by page. */
  followUps(agent: AgentRef, settings: CallSettings = {}): AsyncGenerator<PendingFollowUp, void, void> {
    return pages(undefined, async (pageToken) => {
      const { followUps, nextPageToken } = await this.listFollowUps(agent, { pageToken }, settings);
      return { entries: followUps, nextPageToken };
    });
  }

  /** One message in any state, with the run that was given it and the answer. */
  followUp(agent: AgentRef, followUpId: string, settings: CallSettings = {}): Promise<ReplyOf<'followUp'>> {
    return this.#caller.ask('followUp', {
      body: { agentId: agentIdOf(agent), followUpId },
      ...settingsOf(settings),
    });
  }

  clearFollowUps(agent: AgentRef, settings: CallSettings = {}): Promise<ReplyOf<'clearFollowUps'>> {
    return this.#caller.ask('clearFollowUps', {
      body: { agentId: agentIdOf(agent) },
      ...settingsOf(settings),
    });
  }

  /** Interrupts the turn with this number, the `runCount` that the status shows. */
  stopTurn(
    agent: AgentRef,
    turn: { readonly runId: Int64Input; readonly mode?: StopMode },
    settings: CallSettings = {},
  ): Promise<ReplyOf<'stopTurn'>> {
    return this.#caller.ask('stopTurn', {
      body: { agentId: agentIdOf(agent), ...turn },
      // Refused the second time: a turn that there was, and that is over, is what was wanted.
      whenRepeated: async () => {
        const { runCount } = await this.status(agent, settings);
        return compareInt64(runCount, turn.runId) >= 0 ? {} : undefined;
      },
      ...settingsOf(settings),
    });
  }

  /** Ends the agent and every agent below it. */
  kill(agent: AgentRef, settings: CallSettings = {}): Promise<ReplyOf<'kill'>> {
    return this.#caller.ask('kill', { body: { agentId: agentIdOf(agent) }, ...settingsOf(settings) });
  }

  /** Runs the messages of a blocked agent again, and those of a retrying one immediately. */
  retry(agent: AgentRef, settings: CallSettings = {}): Promise<ReplyOf<'retry'>> {
    return this.#caller.ask('retry', { body: { agentId: agentIdOf(agent) }, ...settingsOf(settings) });
  }

  /** Reopens an agent that finished or failed: it rests again, with its session, checklist and branch. */
  reopen(agent: AgentRef, settings: CallSettings = {}): Promise<ReplyOf<'reopen'>> {
    return this.#caller.ask('reopen', { body: { agentId: agentIdOf(agent) }, ...settingsOf(settings) });
  }

  /** One page, newest first. */
  list(filter: ListInput = {}, settings: CallSettings = {}): Promise<Page<AgentEntry>> {
    return this.#caller.ask('list', { body: listBody(filter), ...settingsOf(settings) });
  }

  listAll(filter: ListInput = {}, settings: CallSettings = {}): AsyncGenerator<AgentEntry, void, void> {
    return pages(filter.pageToken, (pageToken) => this.list({ ...filter, pageToken }, settings));
  }

  /** The entries of the list, then each again whenever it changes. Goes on across cuts, without a repetition. */
  listStream(
    filter: ListInput = {},
    { signal, onOpen, onWhole }: ListStreamSettings = {},
  ): AsyncGenerator<AgentEntry, void, void> {
    const caller = this.#caller;
    const everyone: ListInput = { ...filter, phases: [], includeTerminal: true, pageToken: '' };
    return agentStream(
      {
        events: (inner) => caller.events('listStream', inner, () => ({ body: listBody(filter) })),
        everyone: (inner) => this.listAll(everyone, { signal: inner }),
        onOpen,
        onWhole,
      },
      signal,
    );
  }

  /** One page, oldest first. */
  timeline(agent: AgentRef, input: TimelineInput = {}): Promise<ReplyOf<'timeline'>> {
    const { after, before, limit, types } = input;
    const body = {
      agentId: agentIdOf(agent),
      ...(after !== undefined && { afterSequence: after }),
      ...(before !== undefined && { beforeSequence: before }),
      ...(types !== undefined && { types: [...types] }),
      ...(limit !== undefined && { limit }),
    };
    return this.#caller.ask('timeline', { body, ...settingsOf(input) });
  }

  /** Every entry up to now, oldest first. */
  async *timelineAll(
    agent: AgentRef,
    input: Omit<TimelineInput, 'before' | 'limit'> = {},
  ): AsyncGenerator<TimelineEntry, void, void> {
    let after = input.after ?? '0';
    for (;;) {
      const { entries, more } = await this.timeline(agent, { ...input, after, limit: pageEntries });
      yield* entries;
      const last = entries.at(-1);
      if (last === undefined || !more) return;
      after = last.sequence;
    }
  }

  /** The newest entries, oldest of them first, on as many pages as they need. */
  timelineNewest(agent: AgentRef, input: NewestInput): Promise<TimelineEntry[]> {
    return newestEntries(input.limit, (before, limit) => this.timeline(agent, { ...input, before, limit }));
  }

  /** What there is, then what comes, each entry once: across cuts, restarts and time-outs it goes on where it was. */
  async *timelineStream(
    agent: AgentRef,
    { after = '0', signal, onOpen }: StreamSettings & { readonly after?: Int64Input | undefined } = {},
  ): AsyncGenerator<TimelineEntry, void, void> {
    let last = String(after);
    const body = { agentId: agentIdOf(agent), afterSequence: last };
    const prepare = () => ({ body, headers: { 'last-event-id': last } });
    for await (const event of this.#caller.events('timelineStream', signal, prepare)) {
      if (event === null) {
        onOpen?.();
        continue;
      }
      const entry = JSON.parse(event.data) as TimelineEntry;
      if (compareInt64(entry.sequence, last) <= 0) continue;
      last = entry.sequence;
      yield entry;
    }
  }

  /** Newest first, at most 1,000 at a time; or one run with all that it said. */
  runs(
    agent: AgentRef,
    input: CallSettings & {
      readonly runId?: Int64Input | undefined;
      readonly before?: Int64Input | undefined;
      readonly limit?: number | undefined;
    } = {},
  ): Promise<ReplyOf<'runs'>> {
    const { runId, before, limit } = input;
    const body = {
      agentId: agentIdOf(agent),
      ...(runId !== undefined && { runId }),
      ...(before !== undefined && { beforeRunId: before }),
      ...(limit !== undefined && { limit }),
    };
    return this.#caller.ask('runs', { body, ...settingsOf(input) });
  }

  async *runsAll(agent: AgentRef, settings: CallSettings = {}): AsyncGenerator<Run, void, void> {
    let before: string | undefined;
    for (;;) {
      const page = { ...settingsOf(settings), before, limit: pageEntries };
      const { runs, more } = await this.runs(agent, page);
      yield* runs;
      const last = runs.at(-1);
      if (last === undefined || !more) return;
      before = last.runId;
    }
  }

  diff(agent: AgentRef, settings: CallSettings = {}): Promise<ReplyOf<'diff'>> {
    return this.#caller.ask('diff', { body: { agentId: agentIdOf(agent) }, ...settingsOf(settings) });
  }

  /** One part of the newest checkpoint; `checkpointId` is that of the parts before. */
  checkpoint(
    agent: AgentRef,
    input: { readonly checkpointId?: string; readonly part?: number } & CallSettings = {},
  ): Promise<ReplyOf<'checkpoint'>> {
    const { checkpointId, part = 0 } = input;
    const body = { agentId: agentIdOf(agent), part, ...(checkpointId !== undefined && { checkpointId }) };
    return this.#caller.ask('checkpoint', { body, ...settingsOf(input) });
  }

  tasks(agent: AgentRef, settings: CallSettings = {}): Promise<ReplyOf<'tasks'>> {
    return this.#caller.ask('tasks', { body: { agentId: agentIdOf(agent) }, ...settingsOf(settings) });
  }

  createTasks(
    agent: AgentRef,
    tasks: readonly TaskInput[],
    settings: CallSettings = {},
  ): Promise<ReplyOf<'createTasks'>> {
    return this.#caller.ask('createTasks', {
      body: { agentId: agentIdOf(agent), tasks: [...tasks] },
      ...settingsOf(settings),
    });
  }

  /** Changes the fields that are given. */
  updateTask(
    agent: AgentRef,
    id: string,
    changes: Omit<UpdateTaskRequest, 'agentId' | 'id'>,
    settings: CallSettings = {},
  ): Promise<ReplyOf<'updateTask'>> {
    return this.#caller.ask('updateTask', {
      body: { agentId: agentIdOf(agent), ...changes, id },
      ...settingsOf(settings),
    });
  }

  /** With the key of a run: its question, for when it has ended. */
  ask(agent: AgentRef, question: string, settings: CallSettings = {}): Promise<ReplyOf<'ask'>> {
    return this.#caller.ask('ask', {
      body: { agentId: agentIdOf(agent), question },
      ...settingsOf(settings),
    });
  }

  /** With the key of a run: declares its agent failed. */
  fail(agent: AgentRef, message: string, settings: CallSettings = {}): Promise<ReplyOf<'fail'>> {
    return this.#caller.ask('fail', {
      body: { agentId: agentIdOf(agent), message },
      ...settingsOf(settings),
    });
  }

  /** With the key of a run: declares its agent finished. */
  finish(agent: AgentRef, text = '', settings: CallSettings = {}): Promise<ReplyOf<'finish'>> {
    return this.#caller.ask('finish', { body: { agentId: agentIdOf(agent), text }, ...settingsOf(settings) });
  }
}

const schemaField = (schema: OutputSchema | undefined): { outputSchema?: string } =>
  schema === undefined ? {} : { outputSchema: typeof schema === 'string' ? schema : JSON.stringify(schema) };

const timeText = (time: Date | string): string => (typeof time === 'string' ? time : time.toISOString());

const listBody = ({ parent, endedSince, ...filter }: ListInput): ListRequest => ({
  ...filter,
  ...(endedSince !== undefined && { endedSince: timeText(endedSince) }),
  ...(parent !== undefined && { parentId: agentIdOf(parent) }),
});
