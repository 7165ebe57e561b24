import { setImmediate } from 'node:timers/promises';
import type {
  AgentEntry,
  AgentStatus,
  BodyOf,
  ChangeRequest,
  FollowUp,
  ReplyOf,
  Run,
  Tenant,
} from '@muster/sdk/contract';
import { diffWithContext, isTerminal, limits } from '@muster/sdk/contract';
import type pg from 'pg';
import type { isAnswered } from '../../domain/batch.ts';
import { invalid, isRefusal, notFound, outOfRange, type Refusal } from '../../domain/refusal.ts';
import { isTimeout } from '../../lib/errors.ts';
import { type AgentKey, keyColumns, type ReplyKey, type Wanted } from '../../store/agent-store.ts';
import { listText } from '../../store/list-text.ts';
import { readChangeRequestsOf } from '../../store/statements/change-requests.ts';
import {
  type FoundRow,
  findAgentKeys,
  findAgents,
  findOwner,
  type PeekedRow,
  peekAgents,
  readAttention,
  readSettledBelow,
} from '../../store/statements/find-agents.ts';
import { readFollowUp, readProgress, readQueue } from '../../store/statements/follow-ups.ts';
import { fitsNow, type ListFilter, type ListRow, readList } from '../../store/statements/list-agents.ts';
import { wantedParameters } from '../../store/statements/load-agents.ts';
import { loadReplies } from '../../store/statements/replies.ts';
import { readDiffs, readRun, readRuns } from '../../store/statements/runs.ts';
import { searchTimeline } from '../../store/statements/search-timeline.ts';
import { hasMore } from '../../store/statements/shared-sql.ts';
import { readStatus } from '../../store/statements/status.ts';
import { pageOfRows, readFirstSequence, readTimeline } from '../../store/statements/timeline.ts';
import type { Tenants } from '../access/tenants.ts';
import { shareQueries } from '../batches/shared-queries.ts';
import { OverloadedError, TenantTurns } from '../batches/tenant-limits.ts';
import { loadRunnerCapacity, noRunners, type RunnerPolls } from '../runners/runner-capacity.ts';
import { type BudgetedAgent, readBudgetsOf } from './budgets.ts';
import { type PickedAgent, pickAgent } from './identify.ts';
import {
  answeredFollowUpOf,
  changeRequestOf,
  diffStatOf,
  entryOf,
  listedRunOf,
  queuedFollowUpOf,
  runOf,
  statusOf,
  timelineEntryOf,
  type ViewContext,
  waitsForRunner,
} from './views.ts';

export type { FoundRow };

/** Which agents a list shows. */
export type ListScope = Omit<ListFilter, 'before' | 'limit' | 'ids'>;

interface Listed {
  readonly entries: AgentEntry[];
  /** Internal keys of the entries, for a stream that follows them. */
  readonly keys: string[];
}

export interface ListPage extends Listed {
  /** The page behind this one begins behind this agent; null at the end. */
  readonly next: string | null;
}

type Progress = Parameters<typeof isAnswered>[0];

/** Everything that is read about agents. Nothing here is cached; concurrent reads share their queries. */
export class Reads {
  readonly #database: pg.Pool;
  readonly #isAbsent: (runner: RunnerPolls) => boolean;
  readonly #tenants: Tenants;
  readonly #publicUrl: () => string;
  /** A filter that few of many agents fit is slow; the lists of one tenant must not take all connections. */
  readonly #listTurns = new TenantTurns(2, 'lists');
  readonly #findTurns = new TenantTurns(2, 'waits');
  /** A page of a search may take the database some tenths of a second. */
  readonly #searchTurns = new TenantTurns(2, 'searches');
  readonly status: (wanted: Wanted) => Promise<AgentStatus | Refusal>;
  /** Which agent is meant by an identity: the live one, else the newest. */
  readonly find: (wanted: Wanted) => Promise<FoundRow | Refusal>;
  /** The state of a message; null if there is none. */
  readonly progressOf: (key: AgentKey & { followUpId: string }) => Promise<Progress | null>;
  /**
   * The agent that a wait for one agent below this one, or for all of them, returns; null while it has to wait. Without
   * agents below it, a wait for all returns the agent itself, and so does a wait for one once the agent has ended.
   */
  readonly settledBelow: (wait: { above: FoundRow; all: boolean }) => Promise<AgentKey | null>;

  constructor(
    database: pg.Pool,
    tenants: Tenants,
    publicUrl: () => string,
    isAbsent: (runner: RunnerPolls) => boolean,
  ) {
    this.#database = database;
    this.#isAbsent = isAbsent;
    this.#tenants = tenants;
    this.#publicUrl = publicUrl;
    // When an agent becomes idle, everyone who waits for it gets its status.
    this.status = shareQueries((wanted) => this.#readStatuses(wanted), {
      concurrency: 1,
      tenantOf,
      idOf: (wanted) => JSON.stringify(wanted),
    });
    this.find = shareQueries(
      async (wanted) => pickWanted(wanted, await findAgents(database, ...wantedParameters(wanted))),
      { tenantOf },
    );
    this.progressOf = shareQueries((keys) => this.#readProgress(keys), { concurrency: 1 });
    this.settledBelow = shareQueries((waits) => this.#readSettledBelow(waits), {
      concurrency: 1,
      idOf: ({ above, all }) => `${above.id} ${all}`,
    });
  }

  /** The owner of any agent with this path. */
  async ownerOf(tenant: number, path: readonly string[]) {
    const [row] = await findOwner(this.#database, tenant, path.join('/'));
    return row && { ownerProvider: row.owner_provider, account: row.account };
  }

  async storedReply({
    tenant,
    keyId,
    key,
  }: ReplyKey): Promise<{ digest: string; reply: unknown } | undefined> {
    const [row] = await loadReplies(this.#database, [tenant], [keyId], [key], limits.idempotencyHours);
    return row;
  }

  async phase(agent: AgentKey): Promise<PeekedRow | undefined> {
    return (await peekAgents(this.#database, [agent.tenant], [agent.id]))[0];
  }

  /** The agents that are meant by many names of one caller, each once. */
  findAll(caller: number, wanted: readonly Wanted[]): Promise<AgentKey[] | Refusal> {
    return this.#findTurns.run(caller, async () => {
      const [row] = await findAgentKeys(this.#database, ...wantedParameters(wanted));
      const rows = (row?.found ?? []).map(([n, id, phase, workspace]) => ({
        n,
        id,
        phase,
        workspace,
        tenant: tenantOf(wanted[n - 1] as Wanted),
      }));
      const keys = new Map<string, AgentKey>();
      for (const found of pickWanted(wanted, rows)) {
        if (isRefusal(found)) return found;
        keys.set(found.id, { tenant: found.tenant, id: found.id });
      }
      return [...keys.values()];
    });
  }

  /** Those of these agents that work; of the others, the first, and the one whose phase changed last. */
  async attention(agents: readonly AgentKey[]) {
    const tenants = listText(agents, ({ tenant }) => tenant);
    const ids = listText(agents, ({ id }) => id);
    const [row] = await readAttention(this.#database, tenants, ids);
    const { working = '', first = null, last = null } = row ?? {};
    return { working: working === '' ? [] : working.split(',').map((n) => idAt(agents, n)), first, last };
  }

  async #readProgress(keys: readonly (AgentKey & { followUpId: string })[]): Promise<(Progress | null)[]> {
    const rows = await readProgress(
      this.#database,
      ...keyColumns(keys),
      keys.map((k) => k.followUpId),
    );
    const found = new Map(
      rows.map(({ n, current_batch, ...row }) => [n, { ...row, currentBatch: current_batch }]),
    );
    return keys.map((_, i) => found.get(i + 1) ?? null);
  }

  async #readSettledBelow(
    waits: readonly { readonly above: FoundRow; readonly all: boolean }[],
  ): Promise<(AgentKey | null)[]> {
    const rows = await readSettledBelow(
      this.#database,
      waits.map(({ above }) => above.tenant),
      waits.map(({ above }) => above.root),
      waits.map(({ above }) => above.path),
      waits.map(({ above }) => above.id),
      waits.map(({ all }) => all),
    );
    const found = new Map(rows.map((row) => [row.n, row]));
    return waits.map(({ above, all }, i) => {
      const row = found.get(i + 1);
      if (!row) return null;
      const { working, settled, phase } = row;
      const isOver = all ? working === 0 : settled !== null || (working === 0 && isTerminal(phase));
      return isOver ? { tenant: above.tenant, id: settled ?? above.id } : null;
    });
  }

  async #readStatuses(wanted: readonly Wanted[]): Promise<(AgentStatus | Refusal)[]> {
    const rows = await readStatus(this.#database, ...wantedParameters(wanted));
    const names = new Map<number, Tenant>();
    for (const { tenant } of rows) {
      if (!names.has(tenant)) names.set(tenant, await this.#tenants.name(tenant));
    }
    const pushed = rows.filter((row) => row.result.branch !== '');
    const context = await this.#viewContext(rows, await this.#changeRequests(pushed, names));
    return pickWanted(wanted, rows).map((row) =>
      isRefusal(row) ? row : statusOf(row, names.get(row.tenant) as Tenant, context),
    );
  }

  /** The capacity of runners matters only to agents that wait for a runner or have never had one. */
  async #viewContext(
    rows: readonly (Parameters<typeof waitsForRunner>[0] &
      BudgetedAgent & { pool: string; rehearsed: boolean | null })[],
    changeRequests: ViewContext['changeRequests'],
  ): Promise<ViewContext> {
    const now = new Date().toISOString();
    const waiting = rows.filter((row) => waitsForRunner(row, now) || row.rehearsed === null);
    const [capacity, budgets] = await Promise.all([
      waiting.length > 0 ? loadRunnerCapacity(this.#database, this.#isAbsent, waiting) : noRunners,
      readBudgetsOf(
        this.#database,
        rows.filter(({ phase }) => !isTerminal(phase)),
      ),
    ]);
    return { capacity, publicUrl: this.#publicUrl(), now, changeRequests, budgets };
  }

  /** Those of these agents, which have pushed: others have none. */
  async #changeRequests(
    pushed: readonly AgentKey[],
    names: ReadonlyMap<number, Tenant>,
  ): Promise<Map<string, ChangeRequest[]>> {
    const found = new Map<string, ChangeRequest[]>();
    if (pushed.length === 0) return found;
    const records = await readChangeRequestsOf(this.#database, ...keyColumns(pushed));
    for (const row of records) {
      const shown = changeRequestOf(row, names.get(row.tenant) as Tenant);
      found.set(row.agent, [...(found.get(row.agent) ?? []), shown]);
    }
    return found;
  }

  async list(scope: ListScope, before: string | null, limit: number): Promise<ListPage> {
    const rows = await this.#listTurns.run(scope.tenant, () =>
      readList(this.#database, { ...scope, before, limit, ids: null }).catch((error) => {
        if (scope.text === '') throw error;
        return tooLong(error, ', or add another filter such as account, workspace or labels');
      }),
    );
    const page = await this.#listed(rows);
    return { ...page, next: hasMore(rows) ? (page.keys.at(-1) ?? null) : null };
  }

  /**
   * Those of these agents that belong to the list in any phase. `fits`: whether they do in their present phase. `rest`: the
   * agents that did not fit into one page.
   */
  async changed(
    scope: ListScope,
    ids: readonly string[],
  ): Promise<Listed & { fits: boolean[]; rest: string[] }> {
    const rows = await readList(this.#database, {
      ...scope,
      includeTerminal: true,
      endedSince: null,
      phases: [],
      labels: {},
      before: null,
      limit: ids.length,
      ids,
    });
    const last = rows.at(-1);
    return {
      ...(await this.#listed(rows)),
      fits: rows.map((row) => fitsNow(scope, row)),
      rest: last && hasMore(rows) ? ids.filter((id) => id < last.id) : [],
    };
  }

  async #listed(rows: readonly ListRow[]): Promise<Listed> {
    // A list is of one tenant.
    const tenant = rows[0] && (await this.#tenants.name(rows[0].tenant));
    const names = new Map(tenant && rows[0] ? [[rows[0].tenant, tenant]] : []);
    const pushed = rows.filter((row) => row.has_branch);
    const context = await this.#viewContext(rows, await this.#changeRequests(pushed, names));
    const entries = tenant ? rows.map((row) => entryOf(row, tenant, context)) : [];
    return { entries, keys: rows.map((row) => row.id) };
  }

  async timeline(
    agent: FoundRow,
    range: { after: number } | { before: number },
    limit: number,
    { types = [], text = '' }: Pick<BodyOf<'timeline'>, 'types' | 'text'> = {},
  ): Promise<ReplyOf<'timeline'> | Refusal> {
    const { tenant, id, created_at: since } = agent;
    const isAfter = 'after' in range;
    const sequence = isAfter ? range.after : range.before;
    const someTypes = types.length > 0 ? types : null;
    const side = isAfter ? 'after' : 'before';
    const bounds = [sequence, limit, someTypes, limits.pageBytes, since] as const;
    const { rows, next } =
      text === ''
        ? pageOfRows(await readTimeline(this.#database, side, tenant, id, ...bounds))
        : await this.#searchTurns.run(tenant, () =>
            searchTimeline(this.#database, side, text, tenant, id, ...bounds).catch(tooLong),
          );
    // Only where the next entry is missing may some have been deleted.
    if (isAfter && sequence > 0 && sequence < agent.sequence && rows[0]?.sequence !== sequence + 1) {
      const [oldest] = await readFirstSequence(this.#database, tenant, id, since);
      const first = oldest?.first ?? agent.sequence + 1;
      if (sequence < first - 1) return beforeFirst(first);
    }
    const entries = rows.map(timelineEntryOf);
    return {
      entries: isAfter ? entries : entries.reverse(),
      more: next !== null,
      nextSequence: next === null ? '' : String(next),
    };
  }

  /** What an agent's branch changed: the words of every repository, each under its name when there are several. */
  async diff({ tenant, id }: AgentKey, context: number): Promise<ReplyOf<'diff'> | Refusal> {
    const [row] = await readDiffs(this.#database, tenant, id);
    if (!row) return notFound('the agent does not exist');
    const { result, diffs } = row;
    const textOf = async (isOfWorkingTree: boolean): Promise<string> => {
      const chosen = diffs.filter((diff) => diff.working_tree === isOfWorkingTree);
      const texts: string[] = [];
      for (const { repo, text } of chosen) {
        const narrow = diffWithContext(text, context);
        texts.push(chosen.length === 1 ? narrow : `# ${repo}\n${narrow}`);
        // Other requests are served between two long diffs.
        await setImmediate();
      }
      return texts.join('\n');
    };
    const workingTree = diffStatOf(result.workingTrees);
    return {
      branch: result.branch,
      diffStat: diffStatOf(result.diffs),
      diff: await textOf(false),
      workingTree: workingTree && { diffStat: workingTree, diff: await textOf(true) },
    };
  }

  async runs({ tenant, id }: AgentKey, before: number, limit: number): Promise<ReplyOf<'runs'>> {
    const { listedTextBytes, pageBytes } = limits;
    const rows = await readRuns(this.#database, tenant, id, before, limit, listedTextBytes, pageBytes);
    return { runs: rows.map(listedRunOf), more: hasMore(rows) };
  }

  /** Undelivered messages with their whole texts, behind the one with this id. */
  async queue({ tenant, id }: AgentKey, after: string, limit: number) {
    const rows = await readQueue(this.#database, tenant, id, after, limit, limits.queuePageBytes);
    const last = rows.at(-1);
    return { followUps: rows.map(queuedFollowUpOf), next: last?.more ? last.id : null };
  }

  async followUp(agent: FoundRow, followUpId: string): Promise<FollowUp | Refusal> {
    const [row] = await readFollowUp(this.#database, agent.tenant, agent.id, followUpId);
    if (!row) return notFound(`the agent has no follow-up "${followUpId}"`);
    const [run] = row.run === null ? [] : await readRun(this.#database, agent.tenant, agent.id, row.run);
    return answeredFollowUpOf(row, run ? runOf(run) : null);
  }

  async run(agent: FoundRow, runId: number): Promise<Run | Refusal> {
    const [row] = await readRun(this.#database, agent.tenant, agent.id, runId);
    return row ? runOf(row) : noSuchRun(runId, agent.run_count);
  }
}

const tenantOf = (wanted: Wanted): number => ('key' in wanted ? wanted.key : wanted.identity).tenant;

/** For a search that the database ended; other errors stay what they are. */
function tooLong(error: unknown, more = ''): never {
  if (!isTimeout(error)) throw error;
  throw new OverloadedError(`text: the search took too long; search for more characters${more}`);
}

/** `n` counts from 1. */
const idAt = (agents: readonly AgentKey[], n: string): string => (agents[Number(n) - 1] as AgentKey).id;

export const noSuchRun = (runId: number, runCount: number): Refusal =>
  invalid(
    'runId',
    runCount === 0 ? 'the agent has not run yet' : `expected a run from 1 to ${runCount}; got ${runId}`,
  );

/** Of the rows that were found for each wanted agent, the one that is meant. */
function pickWanted<R extends PickedAgent & { n: number }>(
  wanted: readonly Wanted[],
  rows: readonly R[],
): (R | Refusal)[] {
  const found: { agent: R }[][] = wanted.map(() => []);
  for (const row of rows) found[row.n - 1]?.push({ agent: row });
  return wanted.map((one, i) => {
    const picked = pickAgent(found[i] ?? [], 'identity' in one ? one.identity.path : []);
    return isRefusal(picked) ? picked : picked.agent;
  });
}

const beforeFirst = (firstSequence: number): Refusal =>
  outOfRange(`entries before ${firstSequence} are no longer kept`, { firstSequence: String(firstSequence) });
