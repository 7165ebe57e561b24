import type { Demand } from '../contract/pool-runners.ts';
import type { ReplyOf } from '../contract/routes.ts';
import type { Caller, CallSettings } from './caller.ts';
import { CodeHostClient } from './code-hosts.ts';

/** The operations on the runners of a pool. */
export class PoolRunnerClient extends CodeHostClient {
  readonly #caller: Caller;

  constructor(caller: Caller) {
    super(caller);
    this.#caller = caller;
  }

  /** How many runs a pool has and needs, and how many runners that takes. */
  poolDemand(pool: string, settings: CallSettings = {}): Promise<Demand> {
    return this.#caller.call('poolDemand', undefined, settings, { params: { pool } });
  }

  /** The live runners that serve the caller's tenant, of one pool or of all. */
  listRunners(pool?: string, settings: CallSettings = {}): Promise<ReplyOf<'listRunners'>> {
    return this.#caller.call('listRunners', pool === undefined ? {} : { pool }, settings);
  }

  /** These runners of a pool, or all, claim nothing more, finish or hand back their runs, and end. */
  drainRunners(
    pool: string,
    runners: readonly string[] = [],
    settings: CallSettings = {},
  ): Promise<ReplyOf<'drainRunners'>> {
    const body = { pool, ...(runners.length > 0 && { runners: [...runners] }) };
    return this.#caller.call('drainRunners', body, settings);
  }
}
