import { limits, type PollRequest } from '@muster/sdk/contract';
import type pg from 'pg';
import { aborted, alreadyExists, denied, exhausted, type Refusal } from '../../domain/refusal.ts';
import type { Log } from '../../lib/log.ts';
import {
  type BindingRow,
  deleteRunner,
  endLease,
  extendLease,
  type Held,
  type RegistrationRow,
  type RunnerRow,
  readBinding,
  readRegistration,
  registerRunner,
  renewLease,
  renewPausedLease,
  replaceRunners,
} from '../../store/statements/runners.ts';
import type { Principal } from '../access/principal.ts';

const maxCached = 10_000;
/** How often reports extend a lease. */
const renewalsPerLease = 6;

/**
 * Identifies runners by the key of the caller. The `runnerId` and the name in a request prove nothing. The first poll
 * registers the runner under the caller's token resource, in its pool, with its name. From then on every runner route
 * checks that the caller is that token in that pool. A rotated key is accepted; another token, tenant or pool is
 * refused. The service's own runner is registered without a token, so no token can act for it. A name belongs to the
 * token whose live runner has it. When that lease has ended, a runner of another token may take the name; the first
 * one is then refused until the name is free again.
 */
export class RunnerRegistry {
  readonly #database: pg.Pool;
  readonly #leaseMs: number;
  readonly #log: Log;
  /** A registration never changes, so it is read once. */
  readonly #bindings = new Map<string, BindingRow>();
  /** By runner: when this node renewed its lease last. */
  readonly #renewedMs = new Map<string, number>();

  constructor(database: pg.Pool, leaseMs: number, log: Log) {
    this.#log = log;
    this.#database = database;
    this.#leaseMs = leaseMs;
  }

  /** Why the caller may not speak for this runner; null when it may. */
  async refuse(caller: Principal, runnerId: string): Promise<Refusal | null> {
    const binding = await this.#binding(runnerId);
    return binding && isBoundTo(caller, binding) ? null : notOfCaller(caller);
  }

  /** The name under which a runner is registered; empty if it is not. */
  async nameOf(runnerId: string): Promise<string> {
    return (await this.#binding(runnerId))?.name ?? '';
  }

  async #binding(runnerId: string): Promise<BindingRow | undefined> {
    const binding = this.#bindings.get(runnerId) ?? (await readBinding(this.#database, runnerId))[0];
    if (!binding) return undefined;
    if (this.#bindings.size >= maxCached) this.#bindings.clear();
    this.#bindings.set(runnerId, binding);
    return binding;
  }

  /** Registers the runner or renews its lease. Returns its runs, or one row without a run. */
  async renew(caller: Principal, request: PollRequest): Promise<readonly Held[] | Refusal> {
    const { runnerId, name, poll } = request;
    const { token, tenant, pool } = caller;
    const runner = JSON.stringify([rowOf(caller, request)]);
    const isPaused = request.accountStates?.some(({ state }) => state === 'PAUSED') === true;
    const renew = () => (isPaused ? renewPausedLease : renewLease)(this.#database, runner, this.#leaseMs);
    let held: readonly Held[] = await renew();
    if (held.length === 0) {
      const refused = refusalOf(caller, request, await this.#registration(caller, request));
      if (refused) return refused;
      if (poll === 1) await replaceRunners(this.#database, tenant.id, token, name, runnerId);
      const [registered] = await registerRunner(this.#database, runner, this.#leaseMs);
      // Another token may have registered the same name meanwhile: each of the two sees the other here or is alone.
      const now = await this.#registration(caller, request);
      if (registered && now?.is_name_taken) {
        await deleteRunner(this.#database, runnerId);
        return nameTaken(name);
      }
      held = registered ? [{ agent: null, leaving: false, undrained: false }] : await renew();
      if (held.length === 0) return refusalOf(caller, request, now) ?? stale(poll);
      if (registered) this.#log.info({ runner: name, pool, build: request.build }, 'runner joined');
    }
    // The runner gets a claim again whose reply was lost, and hands it back before it leaves.
    const isClaimed = held.some((row) => row.agent !== null && row.state === 'STARTING');
    if (request.leaving && request.runs.length === 0 && !isClaimed) {
      await endLease(this.#database, runnerId);
      this.#log.info({ runner: name, pool }, 'runner left');
    }
    this.#renewed(runnerId, performance.now());
    return held;
  }

  /**
   * A report proves that the runner lives: on a busy machine its poll may take longer than a lease. Returns the length of
   * the new lease, or 0 if it was not extended: it is new enough, or has ended.
   */
  async extend(runnerId: string): Promise<number> {
    const nowMs = performance.now();
    if (nowMs - (this.#renewedMs.get(runnerId) ?? 0) < this.#leaseMs / renewalsPerLease) return 0;
    this.#renewed(runnerId, nowMs);
    const [extended] = await extendLease(this.#database, runnerId, this.#leaseMs);
    return extended ? this.#leaseMs : 0;
  }

  #renewed(runnerId: string, nowMs: number): void {
    if (this.#renewedMs.size >= maxCached) this.#renewedMs.clear();
    this.#renewedMs.set(runnerId, nowMs);
  }

  async #registration(caller: Principal, { runnerId, name }: PollRequest) {
    const [row] = await readRegistration(this.#database, runnerId, caller.tenant.id, caller.token, name);
    return row;
  }
}

/** A token that has moved to another pool does not take its runner's row along: agents of the old pool ran there. */
const isBoundTo = (caller: Principal, { tenant, token, pool }: Omit<BindingRow, 'name'>): boolean =>
  tenant === caller.tenant.id && token === caller.token && pool === caller.pool;

function refusalOf(
  caller: Principal,
  request: PollRequest,
  row: RegistrationRow | undefined,
): Refusal | null {
  const { name, poll } = request;
  const { registered = null, is_name_taken = false, of_token = 0, of_tenant = 0 } = row ?? {};
  if (registered) {
    // A runner from before tokens were recorded is bound by its next poll.
    const binding = { ...registered, token: registered.token ?? caller.token };
    if (!isBoundTo(caller, binding)) return notOfCaller(caller);
    if (registered.name !== name)
      return denied(`this runner is registered as "${registered.name}" and can't poll as "${name}"`);
    if (registered.polls >= poll) return stale(poll);
  }
  if (is_name_taken) return nameTaken(name);
  if (registered || caller.tenant.id === 0) return null;
  if (of_token >= limits.runnersPerToken)
    return exhausted(`the token has ${of_token} live runners; at most ${limits.runnersPerToken} are allowed`);
  if (of_tenant >= limits.runnersPerTenant)
    return exhausted(
      `the tenant has ${of_tenant} live runners; at most ${limits.runnersPerTenant} are allowed`,
    );
  return null;
}

const notOfCaller = ({ pool }: Principal): Refusal =>
  denied(
    `runnerId: no runner with this id is registered with this key's token in pool "${pool}"; each process polls ` +
      'with its own runnerId before it uses other runner routes',
  );

const nameTaken = (name: string): Refusal =>
  alreadyExists(
    `name: a live runner of another token is named "${name}"; choose another name (muster runner --name or ` +
      'MUSTER_RUNNER_NAME), or wait until the lease of that runner has ended',
  );

const stale = (poll: number): Refusal => aborted('STALE_POLL', `poll ${poll} is not newer than the last one`);

const rowOf = ({ tenant, token, pool }: Principal, request: PollRequest): RunnerRow => ({
  tenant: tenant.id,
  id: request.runnerId,
  name: request.name,
  pool,
  build: request.build ?? '',
  capabilities: request.capabilities ?? [],
  backends: request.backends ?? [],
  rehearses: request.rehearses ?? false,
  free_real: request.free.real,
  free_rehearsed: request.free.rehearsed,
  polls: request.poll,
  leaving: request.leaving ?? false,
  accounts: (request.accountStates ?? []).map((one) => ({
    ...one,
    pausedUntil: one.pausedUntil ?? null,
    accepted: one.accepted ?? false,
  })),
  machine: request.machine ?? {},
  token,
});
