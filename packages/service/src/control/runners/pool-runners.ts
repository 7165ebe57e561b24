import {
  type BodyOf,
  type Demand,
  type ListedRunner,
  limits,
  mostListedRuns,
  type Tenant,
} from '@muster/sdk/contract';
import type pg from 'pg';
import { invalid, isRefusal, notFound, precondition, type Refusal } from '../../domain/refusal.ts';
import { type AvailableRunner, demandOf, type PoolWork } from '../../domain/scheduling.ts';
import { versionWarning } from '../../lib/version.ts';
import { type Connection, inTransaction, isoTime } from '../../store/connection.ts';
import { recordAudit } from '../../store/statements/audit.ts';
import { readPoolWork } from '../../store/statements/claims.ts';
import {
  drainRunners,
  findRunners,
  type ListedRunnerRow,
  listRunners,
  poolOfRunner,
  undrainRunners,
} from '../../store/statements/runners.ts';
import { recordOf } from '../access/audit.ts';
import { mayOperate, refuseDemand, refuseResource } from '../access/permit.ts';
import type { Principal } from '../access/principal.ts';
import type { Tenants } from '../access/tenants.ts';
import type { PageTokens } from '../agents/page-tokens.ts';
import { agentIdOf } from '../agents/views.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Operation } from '../operation.ts';
import type { Wakes } from '../watching/wakes.ts';
import { loadRunnerCapacity, poolWorkOf } from './runner-capacity.ts';
import type { Runners } from './runners.ts';

export interface PoolRunnersOptions {
  readonly database: pg.Pool;
  readonly catalog: Catalog;
  readonly pageTokens: PageTokens;
  readonly runners: Runners;
  readonly tenants: Tenants;
  readonly wakes: Wakes;
}

/** For what starts and ends runners: how many a pool needs, and how one ends without losing work. */
export class PoolRunners {
  readonly #options: PoolRunnersOptions;

  constructor(options: PoolRunnersOptions) {
    this.#options = options;
  }

  /** What the caller's tenant needs in a pool. */
  async demand(caller: Principal, pool: string): Promise<Demand | Refusal> {
    const refused = refuseDemand(caller, pool);
    if (refused) return refused;
    const { database, catalog } = this.#options;
    const found = await catalog.read(caller, {}, { kind: 'pool', name: pool });
    if (isRefusal(found)) return found;
    const tenant = caller.tenant.id;
    const [[work], capacity] = await Promise.all([
      readPoolWork(database, tenant, pool),
      this.#capacity([{ tenant, pool }]),
    ]);
    const serving = capacity.runners.filter(serves({ tenant, pool }));
    return demandOf(tenant, work ? poolWorkOf(work) : noWork, serving, capacity.limits(tenant, pool));
  }

  readonly drainRunners: Operation<'drainRunners'> = async (caller, request) => {
    const target = await this.#target(caller, request);
    if (isRefusal(target)) return target;
    const { pool, names } = target;
    const { wakes } = this.#options;
    const tenant = caller.tenant.id;
    const drained = await this.#recorded(caller, 'DRAIN', pool, (client) =>
      drainRunners(client, tenant, pool, names),
    );
    wakes.wakeRunners(drained.map(({ id }) => id));
    // Agents that waited for one of these runners may now be claimed by others.
    wakes.perform([{ type: 'work', tenant, pool }]);
    return { runners: drained.map(({ name, runs }) => ({ name, runs })).sort(byName) };
  };

  readonly undrainRunners: Operation<'undrainRunners'> = async (caller, request) => {
    const target = await this.#target(caller, request);
    if (isRefusal(target)) return target;
    const { pool, names } = target;
    if (!names) return invalid('runners', 'is required, unless `name` names one');
    const { wakes } = this.#options;
    const found = await this.#recorded(caller, 'UNDRAIN', pool, (client) =>
      undrainRunners(client, caller.tenant.id, pool, names),
    );
    wakes.wakeRunners(found.map(({ id }) => id));
    return { runners: found.map(({ name, leaving }) => ({ name, draining: leaving })).sort(byName) };
  };

  readonly listRunners: Operation<'listRunners'> = async (caller, request) => {
    const { database, tenants, pageTokens } = this.#options;
    const { pool, text = '', pageToken } = request;
    const tenant = caller.tenant.id;
    const list = `runners/${tenant}/${pool ?? ''}`;
    const place = pageToken ? pageTokens.open(list, pageToken) : firstPlace;
    if (isRefusal(place)) return place;
    const after = JSON.parse(place) as [string, string, string];
    const limit = request.pageSize || limits.pageSize;
    const asked = [pool || null, mostListedRuns, text.toLowerCase(), ...after, limit + 1] as const;
    const [rows, first] = await Promise.all([listRunners(database, tenant, ...asked), tenants.first()]);
    const shown = rows.slice(0, limit);
    const last = shown.at(-1);
    const next = last && JSON.stringify([last.pool, last.name, last.id]);
    return {
      runners: shown.map((row) => listedRunner(row, caller.tenant, mayOperate(caller, row.tenant, first))),
      nextPageToken: next && rows.length > limit ? pageTokens.seal(list, next) : '',
    };
  };

  /** Changes runners and puts that on record. */
  async #recorded<Row extends { readonly name: string }>(
    caller: Principal,
    action: 'DRAIN' | 'UNDRAIN',
    pool: string,
    change: (client: Connection) => Promise<readonly Row[]>,
  ): Promise<readonly Row[]> {
    return inTransaction(this.#options.database, async (client) => {
      const rows = await change(client);
      const records = rows.map(({ name }) =>
        recordOf(caller, { kind: 'runner', action, name, details: { pool } }),
      );
      await recordAudit(client, records);
      return rows;
    });
  }

  /** The runners that a request names; only admins may, and only in a pool that exists. */
  async #target(
    caller: Principal,
    { name, pool = '', runners }: BodyOf<'drainRunners'>,
  ): Promise<{ readonly pool: string; readonly names: string[] | null } | Refusal> {
    const refused = refuseResource(caller, caller.tenant, 'pool');
    if (refused) return refused;
    const names = name ? [name] : (runners ?? null);
    const [runner] = name && !pool ? await poolOfRunner(this.#options.database, caller.tenant.id, name) : [];
    if (name && !pool && !runner) return notFound(`no runner is named "${name}"`);
    const inPool = runner?.pool ?? pool;
    if (!inPool) return invalid('pool', 'is required, unless `name` names a runner');
    const found = await this.#options.catalog.read(caller, {}, { kind: 'pool', name: inPool });
    if (isRefusal(found)) return found;
    return (await this.#refuseNames(caller.tenant.id, inPool, names ?? [])) ?? { pool: inPool, names };
  }

  async #refuseNames(tenant: number, pool: string, names: readonly string[]): Promise<Refusal | null> {
    if (names.length === 0) return null;
    const known = await findRunners(this.#options.database, tenant, pool, [...names]);
    const unknown = names.find((name) => !known.some((row) => row.name === name));
    if (unknown !== undefined) return notFound(`no runner of pool "${pool}" is named "${unknown}"`);
    const own = names.find((name) => !known.some((row) => row.name === name && row.tenant === tenant));
    if (own === undefined) return null;
    const text = `"${own}" is the runner of the service itself, which ends with it; MUSTER_RUNNER=off starts none`;
    return precondition('OWN_RUNNER', own, text);
  }

  #capacity(wanted: readonly { readonly tenant: number; readonly pool: string }[]) {
    const { database, runners } = this.#options;
    return loadRunnerCapacity(database, (runner) => runners.isAbsent(runner), wanted);
  }
}

function listedRunner(row: ListedRunnerRow, tenant: Tenant, withAccounts: boolean): ListedRunner {
  const { system = '', freeBytes, totalBytes } = row.machine;
  const isFull = row.capabilities.includes('disk-full');
  return {
    name: row.name,
    pool: row.pool,
    isOwn: row.tenant === 0,
    version: row.build,
    versionWarning: versionWarning(row.build),
    system,
    since: row.joined_at,
    lastPollAt: row.polled_at,
    draining: row.leaving,
    sandboxed: row.capabilities.includes('sandbox'),
    rehearses: row.rehearses,
    backends: row.rehearses ? [] : row.backends,
    free: { real: row.free_real, rehearsed: row.free_rehearsed },
    runCount: row.run_count,
    runs: row.runs.map(({ number, state, started_at, agent }) => ({
      agentId: agentIdOf(tenant, agent, agent.path.split('/')),
      runId: String(number),
      state,
      startedAt: isoTime(started_at),
    })),
    disk: freeBytes === undefined || totalBytes === undefined ? null : { freeBytes, totalBytes, isFull },
    accounts: withAccounts ? [...row.accounts] : [],
  };
}

const firstPlace = JSON.stringify(['', '', '00000000-0000-0000-0000-000000000000']);

const noWork: PoolWork = { waiting: { real: 0, rehearsed: 0 }, running: { real: 0, rehearsed: 0 } };

const serves =
  ({ tenant, pool }: { readonly tenant: number; readonly pool: string }) =>
  (runner: AvailableRunner): boolean =>
    runner.pool === pool && (runner.tenant === 0 || runner.tenant === tenant);

const byName = (a: { readonly name: string }, b: { readonly name: string }): number =>
  a.name < b.name ? -1 : 1;
