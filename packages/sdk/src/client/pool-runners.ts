import type { Demand, ListedRunner } from '../contract/pool-runners.ts';
import type { BodyOf, ReplyOf } from '../contract/routes.ts';
import { type Caller, type CallSettings, readPages } from './caller.ts';
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

  /** A page of the live runners that serve the caller's tenant. */
  listRunners(
    request: BodyOf<'listRunners'> = {},
    settings: CallSettings = {},
  ): Promise<ReplyOf<'listRunners'>> {
    return this.#caller.call('listRunners', request, settings);
  }

  /** All of them, page by page. */
  runners(
    request: Omit<BodyOf<'listRunners'>, 'pageToken'> = {},
    settings: CallSettings = {},
  ): AsyncGenerator<ListedRunner, void, void> {
    return readPages('', async (pageToken) => {
      const { runners, nextPageToken } = await this.listRunners({ ...request, pageToken }, settings);
      return { entries: runners, nextPageToken };
    });
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

  /** Runners that drain take runs again, if they have not begun to hand theirs back. */
  undrainRunners(
    pool: string,
    runners: readonly string[],
    settings: CallSettings = {},
  ): Promise<ReplyOf<'undrainRunners'>> {
    return this.#caller.call('undrainRunners', { pool, runners: [...runners] }, settings);
  }
}
