import { type BodyOf, limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { fenced, invalid, notFound, type Refusal } from '../domain/refusal.ts';
import type { Base64Decoder } from '../lib/base64.ts';
import { loadSession, saveSession } from '../store/statements/sessions.ts';
import type { Principal } from './principal.ts';
import type { Tenants } from './tenants.ts';

type Run = BodyOf<'runnerLoadSession'>;

/**
 * The files of harness sessions, kept so that another runner can go on where one left off. As with a report, only the
 * runner that holds the agent's live run may save or load them.
 */
export class Sessions {
  readonly #pool: pg.Pool;
  readonly #tenants: Tenants;

  constructor(pool: pg.Pool, tenants: Tenants) {
    this.#pool = pool;
    this.#tenants = tenants;
  }

  async save(
    caller: Principal,
    run: Run,
    archive: ReturnType<Base64Decoder['end']>,
  ): Promise<Record<string, never> | Refusal> {
    if (archive === 'too long')
      return invalid('archive', `must be at most ${limits.sessionBytes} bytes before base64`);
    if (archive === 'invalid') return invalid('archive', 'must be base64, with its padding');
    const key = await this.#tenants.agentKey(caller.tenant.id, run.agentKey);
    if (!key) return notFound('the agent does not exist');
    const [saved] = await saveSession(this.#pool, key.tenant, key.id, run.runId, run.runnerId, archive);
    return saved ? {} : notHeld(run);
  }

  async load(caller: Principal, run: Run): Promise<{ archive: string } | Refusal> {
    const key = await this.#tenants.agentKey(caller.tenant.id, run.agentKey);
    if (!key) return notFound('the agent does not exist');
    const [found] = await loadSession(this.#pool, key.tenant, key.id, run.runId, run.runnerId);
    return found ? { archive: found.archive ?? '' } : notHeld(run);
  }
}

const notHeld = ({ runId }: Run): Refusal => fenced(`run ${runId} is not a live run of this runner`);
