import {
  type BodyOf,
  backends,
  type PollReply,
  type PollRequest,
  type ReportReply,
  type ReportRequest,
  type ReportResult,
  reportFailed,
  type Service,
} from '@muster/sdk/contract';
import type { AgentState } from '../../domain/agent.ts';
import { denied, invalid, isRefusal, notFound, type Refusal } from '../../domain/refusal.ts';
import {
  backendsOfFreeSlots,
  type Candidate,
  chooseClaims,
  freeSlots,
  type Slot,
} from '../../domain/scheduling.ts';
import { InvariantError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { Metrics } from '../../lib/metrics.ts';
import type { ModelTable } from '../../lib/models.ts';
import { versionWarning } from '../../lib/version.ts';
import { type WakeSignal, withWakeSignal } from '../../lib/wake-signal.ts';
import type { OtherWorkers } from '../../lib/worker-channel.ts';
import type { AgentKey } from '../../store/agent-store.ts';
import { readStateOf } from '../../store/rows.ts';
import { findCandidates } from '../../store/statements/claims.ts';
import { endedAgents } from '../../store/statements/find-agents.ts';
import { loadAgents, stateParameters } from '../../store/statements/load-agents.ts';
import {
  findHeld,
  findUnstored,
  type Held,
  type HeldRow,
  readLiveRunners,
  takeSlots,
} from '../../store/statements/runners.ts';
import { mayOperate } from '../access/permit.ts';
import type { Principal } from '../access/principal.ts';
import { OutputReports } from '../batches/output-reports.ts';
import type { Transact } from '../batches/transact.ts';
import type { Quotas } from '../upkeep/quotas.ts';
import type { ReplySignal, Wakes } from '../watching/wakes.ts';
import type { BlockOnStateError } from './block-on-state-error.ts';
import { ClaimReader, type ClaimReaderOptions } from './claim-reader.ts';
import { noteObserved } from './observed.ts';
import { isNews, nothingNew } from './poll-replies.ts';
import { Resumes } from './resumes.ts';
import { ClaimTurns, CutPolls, type RunnerPolls } from './runner-capacity.ts';
import { RunnerRegistry } from './runner-registry.ts';
import { offeredSteers } from './steers.ts';

export interface RunnersOptions extends ClaimReaderOptions {
  readonly transact: Transact;
  readonly blockOnStateError: BlockOnStateError;
  readonly wakes: Wakes;
  readonly leaseMs: number;
  readonly workers: OtherWorkers | null;
  readonly models: ModelTable;
  readonly quotas: Quotas;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** What a poll is answered from. */
interface Work {
  /** The runs of the runner, or one row without a run. Empty: a newer poll has begun. */
  readonly rows: readonly Held[];
  readonly candidates: Record<Slot, Candidate[]>;
}

/** How many runs one poll may claim; a runner with more free slots polls again immediately. */
const claimsPerPoll = 32;

/**
 * The service's side of the runner protocol. A poll renews the lease and waits until there is news for the runner. A
 * claim that the runner does not list was lost on the way and is sent again; a run that it had started and no longer
 * lists was lost with an earlier process of the runner.
 */
export class Runners {
  readonly registry: RunnerRegistry;
  readonly #options: RunnersOptions;
  readonly #cutPolls: CutPolls;
  readonly #turns = new ClaimTurns();
  readonly #output: OutputReports;
  readonly #claims: ClaimReader;
  readonly #resumes: Resumes;

  constructor(options: RunnersOptions) {
    this.#options = options;
    this.#output = new OutputReports(options.database, options.wakes, (key, bytes) =>
      options.quotas.stored(key, bytes),
    );
    this.registry = new RunnerRegistry(options.database, options.leaseMs, options.log);
    this.#cutPolls = new CutPolls(options.leaseMs, options.workers);
    this.#claims = new ClaimReader(options);
    this.#resumes = new Resumes(options.database, options.transact);
  }

  /** Its poll was cut and none has followed: the runner is probably dead. */
  isAbsent(runner: RunnerPolls): boolean {
    return this.#cutPolls.isAbsent(runner);
  }

  async poll(caller: Principal, request: PollRequest, signal: ReplySignal): Promise<PollReply | Refusal> {
    const { pool } = request;
    if (pool && pool !== caller.pool) {
      return denied(`the runner's key is of pool "${caller.pool}"; the runner asks for pool "${pool}"`);
    }
    const { runnerId, poll } = request;
    const watch = (wake: () => void) =>
      this.#options.wakes.watchRunner({
        runnerId,
        tenant: caller.tenant.id,
        pool: caller.pool,
        hasRoom: !request.leaving && request.free.real + request.free.rehearsed > 0,
        wake,
      });
    return withWakeSignal(signal, watch, async (wakeSignal) => {
      const [rows, candidates] = await Promise.all([
        this.registry.renew(caller, request),
        this.#candidates(caller, request),
      ]);
      if (isRefusal(rows)) return rows;
      noteObserved(request.observed ?? [], this.#options.metrics);
      if (poll === 1) await this.#resumes.accounts(caller, request);
      this.#cutPolls.began(runnerId, poll);
      try {
        return await this.#waitForWork(caller, request, signal, wakeSignal, { rows, candidates });
      } finally {
        this.#cutPolls.ended(runnerId, poll, signal.aborted && signal.reason === 'disconnected');
      }
    });
  }

  /** Answers when there is news, or after the longest wait. */
  async #waitForWork(
    caller: Principal,
    request: PollRequest,
    signal: AbortSignal,
    wakeSignal: WakeSignal,
    first: Work,
  ): Promise<PollReply> {
    const { database, leaseMs } = this.#options;
    const deadlineMs = Date.now() + Math.min(request.waitMs ?? 0, leaseMs / 2);
    let work = first;
    // After an abort the runner would not receive what this poll claims.
    while (!signal.aborted) {
      const { reply, areStopped } = await this.#answer(caller, request, work);
      const leftMs = deadlineMs - Date.now();
      if (isNews(reply, request) || leftMs <= 0) return reply;
      // Others may wait behind agents that a policy or a budget has stopped.
      if (!areStopped) await wakeSignal.within(leftMs);
      const [rows, candidates] = await Promise.all([
        findHeld(database, request.runnerId, request.poll),
        this.#candidates(caller, request),
      ]);
      work = { rows, candidates };
    }
    return nothingNew(leaseMs, request);
  }

  async #answer(
    caller: Principal,
    request: PollRequest,
    { rows, candidates }: Work,
  ): Promise<{ readonly reply: PollReply; readonly areStopped: boolean }> {
    const { database, leaseMs, transact, blockOnStateError } = this.#options;
    const listed = new Set(request.runs.map((r) => `${r.agentKey}/${r.runId}`));
    // A poll that the runner has given up may still be open here, with an outdated list of runs.
    if (rows.length === 0) return { reply: nothingNew(leaseMs, request), areStopped: false };
    const held = rows.filter((row) => row.agent !== null);
    const drain = request.leaving !== true && rows.some(({ leaving }) => leaving);
    const undrain = request.leaving === true && rows.some(({ undrained }) => undrained);
    const isListed = (row: HeldRow) => listed.has(`${row.agent}/${row.number}`);
    const unsent = held.filter((row) => row.state === 'STARTING' && !isListed(row));
    // Runs that it had started and no longer lists ended with an earlier process of the runner.
    for (const row of held.filter((r) => r.state !== 'STARTING' && !isListed(r))) {
      const key = keyOf(row);
      await blockOnStateError({ key, runId: row.number }, () =>
        transact.command({ key }, { type: 'lose', runId: row.number }),
      );
    }
    const unstored = await this.#endUnstored(caller, request, held);
    const stops = held
      .filter((row) => isListed(row) && (row.state === 'STOPPING' || row.state === 'ENDED'))
      .map((row) => ({
        agentKey: row.agent,
        runId: row.number,
        kind: row.state === 'ENDED' ? ('KILL' as const) : ('INTERRUPT' as const),
      }))
      .concat(unstored.map((row) => ({ agentKey: row.agent, runId: row.number, kind: 'KILL' as const })));
    const again = await this.#starting(unsent.map(keyOf));
    const { claimed, areStopped } = drain
      ? { claimed: [], areStopped: false }
      : await this.#claim(caller, request, candidates, again);
    const starting = [...again, ...claimed.map(({ state }) => state)];
    const [claims] = await Promise.all([
      Promise.all(
        starting.map((state) =>
          blockOnStateError({ key: state.agent, runId: state.agent.runCount }, () =>
            this.#claims.read(state),
          ),
        ),
      ),
      this.#takeSlots(request.runnerId, claimed),
    ]);
    const steers = held.some((row) => row.has_steers) ? await offeredSteers(database, request) : [];
    const reply = {
      leaseMs,
      claims: claims.filter((claim) => claim !== null && claim !== undefined),
      stops,
      steers,
      drain,
      undrain,
      watched: held.flatMap(({ agent, state, watched_since }) =>
        state !== 'ENDED' && watched_since !== null ? [{ agentKey: agent, since: watched_since }] : [],
      ),
    };
    return { reply, areStopped };
  }

  /** Runs that the runner lists and that are not stored: their agents are blocked, and the runner has to end them. */
  async #endUnstored(caller: Principal, { runs }: PollRequest, held: readonly HeldRow[]) {
    const known = new Set(held.map((row) => `${row.agent}/${row.number}`));
    const others = runs.filter((run) => !known.has(`${run.agentKey}/${run.runId}`));
    if (others.length === 0) return [];
    const unstored = await findUnstored(
      this.#options.database,
      caller.tenant.id,
      others.map((run) => run.agentKey),
      others.map((run) => run.runId),
    );
    for (const row of unstored.filter(({ is_newest }) => is_newest)) {
      await this.#options.blockOnStateError({ key: keyOf(row), runId: null }, () => {
        throw new InvariantError(`run ${row.number} is not stored`);
      });
    }
    return unstored;
  }

  async #candidates(caller: Principal, request: PollRequest): Promise<Record<Slot, Candidate[]>> {
    const backendsOf = backendsOfFreeSlots(request);
    const candidatesFor = (slot: Slot) => {
      if (request.leaving || backendsOf[slot].length === 0) return [];
      return findCandidates(
        this.#options.database,
        caller.tenant.id,
        caller.pool,
        backendsOf[slot],
        request.name,
        request.runnerId,
        this.#turns.last(request.runnerId, slot),
        Math.min(claimsPerPoll, request.free[slot]),
      );
    };
    const [real, rehearsed] = await Promise.all([candidatesFor('real'), candidatesFor('rehearsed')]);
    return { real, rehearsed };
  }

  async #claim(
    caller: Principal,
    request: PollRequest,
    candidates: Record<Slot, Candidate[]>,
    unsent: readonly AgentState[],
  ): Promise<{ claimed: { slot: Slot; tenant: number; state: AgentState }[]; areStopped: boolean }> {
    const { transact, blockOnStateError } = this.#options;
    const unsentModels = unsent.map(({ agent }) => agent.settings.model);
    const chosen = chooseClaims(candidates, freeSlots(request, unsentModels)).slice(0, claimsPerPoll);
    const capabilities = request.capabilities ?? [];
    const runner = {
      id: request.runnerId,
      name: request.name,
      pool: caller.pool,
      deferral: capabilities.includes('deferral'),
      rehearses: request.rehearses ?? false,
      sandboxed: capabilities.includes('sandbox'),
    };
    const replies = await Promise.all(
      chosen.map(({ tenant, id }) => {
        const key = { tenant, id };
        return blockOnStateError({ key, runId: null }, () =>
          transact.command<AgentState | null>({ key }, { type: 'claim', runner }),
        );
      }),
    );
    const claimed = chosen.flatMap(({ slot, tenant }, i) => {
      const state = replies[i];
      return state && !isRefusal(state) ? [{ slot, tenant, state }] : [];
    });
    for (const { slot, tenant } of claimed) this.#turns.took(request.runnerId, slot, tenant);
    return { claimed, areStopped: replies.includes(null) };
  }

  async #takeSlots(runnerId: string, claimed: readonly { readonly slot: Slot }[]): Promise<void> {
    if (claimed.length === 0) return;
    const rehearsed = claimed.filter(({ slot }) => slot === 'rehearsed').length;
    await takeSlots(this.#options.database, runnerId, claimed.length - rehearsed, rehearsed);
  }

  /** The current state of runs that were claimed and not listed since. */
  async #starting(keys: readonly AgentKey[]): Promise<AgentState[]> {
    if (keys.length === 0) return [];
    const wanted = keys.map((key) => ({ want: { key }, parts: new Set(['checklist'] as const) }));
    const rows = await loadAgents(this.#options.database, ...stateParameters(wanted));
    return rows.map(readStateOf).map(({ state, parts }) => ({ ...state, ...parts }));
  }

  async report(caller: Principal, request: ReportRequest): Promise<ReportReply | Refusal> {
    const key = await this.#options.tenants.agentKey(caller.tenant.id, request.agentKey);
    if (!key) return notFound('the agent does not exist');
    const { end, diff } = request;
    if (end?.outcome === 'PARKED' && !end.limitUntil)
      return invalid('end.limitUntil', 'is required with the outcome PARKED');
    // The name is part of a database key, which is limited in bytes.
    if (diff && Buffer.byteLength(diff.repo) > maxRepoBytes)
      return invalid('diff.repo', `must be at most ${maxRepoBytes} bytes`);
    const { transact, blockOnStateError } = this.#options;
    if (request.late) return this.#reportLate(caller, key, request, request.late);
    const { agentKey: _, omitTasks, reached = [], late: __, ...report } = request;
    const decided = { type: 'report', ...report } as const;
    const command = async () =>
      (await this.#output.append(key, decided)) ?? (await transact.command<ReportResult>({ key }, decided));
    // The runner has given the run up: the run must end even if the stored state is broken.
    const isGivenUp = end?.error?.code === reportFailed;
    const reported = isGivenUp
      ? await blockOnStateError({ key, runId: request.runId }, command)
      : await command();
    if (reported === undefined) throw new InvariantError('the run could not be ended');
    if (isRefusal(reported)) return reported;
    const leaseMs = await this.registry.extend(request.runnerId);
    const awaited = reported ? await this.#resumes.reached(caller, request.runnerId, reached) : [];
    const { tasks, ...reply } = reported ?? { stop: '', tasks: [], activeTaskIds: [], asked: false };
    return { ...reply, tasks: omitTasks ? [] : tasks, awaited, leaseMs };
  }

  async #reportLate(
    { pool }: Principal,
    key: AgentKey,
    { runnerId, runId, report, items }: ReportRequest,
    { usage = {}, missing = 0 }: NonNullable<ReportRequest['late']>,
  ): Promise<ReportReply | Refusal> {
    const { costUsd: cost = 0, inputTokens = 0, cachedInputTokens = 0, outputTokens = 0, parts = [] } = usage;
    const reported = await this.#options.transact.command<ReportResult>(
      { key },
      {
        type: 'late',
        runner: await this.registry.nameOf(runnerId),
        usage: { cost, inputTokens, cachedInputTokens, outputTokens },
        parts,
        ...{ pool, runId, report, items, missing },
      },
    );
    return isRefusal(reported) ? reported : { ...reported, awaited: [], leaseMs: 0 };
  }

  /** The backends and runners that the caller's tenant can use now, and for admins what a rotated secret left behind. */
  async service(caller: Principal): Promise<Service> {
    const { database, catalog, models } = this.#options;
    const [rows, outdated, quotas] = await Promise.all([
      readLiveRunners(database, caller.tenant.id),
      catalog.secrets.outdated(caller),
      this.#options.quotas.uses({ ...caller, tenant: caller.tenant.id }),
    ]);
    const serving = rows.filter(({ leaving }) => !leaving);
    const first = await this.#options.tenants.first();
    return {
      ...outdated,
      quotas,
      models: Object.entries(models).map(([model, { backend, provider }]) => ({ model, backend, provider })),
      backends: backends.map((backend) => ({
        backend,
        ready: serving.some((row) => !row.rehearses && row.backends.includes(backend)),
        rehearsed: serving.some((row) => row.rehearses),
      })),
      runners: rows.map(
        ({
          tenant,
          name,
          pool,
          backends: played,
          rehearses,
          leaving,
          build,
          accounts,
          is_sandboxed,
          is_disk_full,
        }) => ({
          name,
          pool,
          backends: rehearses ? [] : played,
          rehearses,
          sandboxed: is_sandboxed,
          diskFull: is_disk_full,
          draining: leaving,
          accounts: mayOperate(caller, tenant, first) ? [...accounts] : [],
          version: build,
          versionWarning: versionWarning(build),
        }),
      ),
    };
  }

  /** Which of these agents ended at least this many days ago, of those that this runner may have run. */
  async ended(request: BodyOf<'runnerEndedAgents'>): Promise<{ ended: string[] }> {
    const { runnerId, agentKeys, forDays = 0, saved = false, killed = false } = request;
    const rows = await endedAgents(this.#options.database, runnerId, [...agentKeys], forDays, saved, killed);
    return { ended: rows.map((row) => row.id) };
  }
}

const maxRepoBytes = 2048;

const keyOf = (row: Pick<HeldRow, 'tenant' | 'agent'>): AgentKey => ({ tenant: row.tenant, id: row.agent });
