import { randomUUID } from 'node:crypto';
import type { AgentStatus, ReportRequest } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Principal } from '../../packages/service/src/control/access/principal.ts';
import { Control } from '../../packages/service/src/control/control.ts';
import { isRefusal, type Refusal } from '../../packages/service/src/domain/refusal.ts';
import { openLog } from '../../packages/service/src/lib/log.ts';
import { ServiceSecrets } from '../../packages/service/src/lib/service-secret.ts';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import { freshDatabase } from '../support/database.ts';
import type { Declaration } from './agent-model.ts';

const leaseMs = 3_600_000;

/** The real service without HTTP, on its own database. Tests change stored times instead of waiting. */
export class ModelService {
  readonly control: Control;
  readonly database: pg.Pool;
  readonly #drop: () => Promise<void>;
  #tenants = 0;

  private constructor(database: pg.Pool, url: string, drop: () => Promise<void>) {
    this.database = database;
    this.#drop = drop;
    this.control = new Control({
      database,
      connection: { connectionString: url },
      log: openLog('silent'),
      secrets: new ServiceSecrets('a secret of this test only, long enough'),
      publicUrl: () => 'http://localhost',
      defaultModel: 'rehearsal-a',
      models: {},
      leaseMs,
      workers: null,
      timelineDays: 365,
      timelineEntries: 100_000,
      quotas: { storage: 1e12, checkpoints: 1e12, attachments: 1e12 },
    });
  }

  static async open(): Promise<ModelService> {
    const fresh = await freshDatabase();
    const database = openDatabase({ connectionString: fresh.url }, () => {});
    return new ModelService(database, fresh.url, fresh.drop);
  }

  async close(): Promise<void> {
    await this.control.close();
    await this.database.end();
    await this.#drop();
  }

  /** A new tenant for each run of the model, so that earlier runs don't affect it. */
  async newTenant(): Promise<ModelTenant> {
    this.#tenants += 1;
    const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: `run-${this.#tenants}` } as const;
    const id = await this.control.tenants.create(tenant);
    return new ModelTenant(this, { id, ...tenant });
  }
}

/** A claimed run and its runner. */
export interface HeldRun {
  readonly runnerId: string;
  readonly agentKey: string;
  readonly runId: number;
  reports: number;
}

export class ModelTenant {
  readonly control: Control;
  readonly caller: Principal;
  readonly #runner: Principal;
  readonly #database: pg.Pool;

  constructor({ control, database }: ModelService, tenant: Principal['tenant']) {
    this.control = control;
    this.#database = database;
    this.caller = {
      tenant,
      ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
      account: 'ada',
      keyId: 'ada',
      role: 'admin',
      expiresAt: null,
      pool: '',
      token: '',
      agent: null,
    };
    this.#runner = { ...this.caller, keyId: 'runner', role: 'runner', pool: 'default', token: 'runner@1' };
  }

  agentId = (path: string) => ({ agent: path.split('/'), workspace: 'default' });

  async status(path: string): Promise<AgentStatus> {
    const status = await this.control.operations.status(this.caller, { agentId: this.agentId(path) });
    if (isRefusal(status)) throw new Error(status.message);
    return status;
  }

  /** Polls once for one run, with a new runner under the name that all agents have as their home. */
  async claim() {
    const runnerId = randomUUID();
    const request = {
      runnerId,
      name: 'home',
      poll: 2,
      capabilities: ['deferral', 'sandbox'],
      backends: [],
      rehearses: true,
      free: { real: 0, rehearsed: 1 },
      runs: [],
      waitMs: 0,
    };
    const reply = await this.control.runners.poll(this.#runner, request, new AbortController().signal);
    if (isRefusal(reply)) throw new Error(reply.message);
    const [claim] = reply.claims;
    if (!claim) return null;
    const held: HeldRun = { runnerId, agentKey: claim.agentKey, runId: claim.runId, reports: 0 };
    return { held, claim };
  }

  async report(held: HeldRun, fields: Partial<ReportRequest>): Promise<string> {
    held.reports += 1;
    const { runnerId, agentKey, runId, reports } = held;
    const request = { runnerId, agentKey, runId, report: reports, ...fields };
    return statusOf(await this.control.runners.report(this.#runner, request));
  }

  /** Sends ask, finish or fail with the run's key. */
  async declare(held: HeldRun, path: string, declaration: Declaration): Promise<string> {
    const { tenant, ownerProvider, account } = this.caller;
    const agentId = this.agentId(path);
    const caller: Principal = {
      ...this.caller,
      role: 'agent',
      agent: {
        tenant: tenant.id,
        id: held.agentKey,
        ownerProvider,
        account,
        workspace: agentId.workspace,
        path: agentId.agent,
      },
      run: held.runId,
    };
    const { ownRuns } = this.control;
    const calls = {
      ask: () => ownRuns.ask(caller, { agentId, question: 'which?' }),
      finish: () => ownRuns.finish(caller, { agentId }),
      fail: () => ownRuns.fail(caller, { agentId, message: 'no way' }),
    };
    return statusOf(await calls[declaration]());
  }

  /** The runner of this run stops polling. */
  async expireLease({ runnerId }: HeldRun): Promise<void> {
    await this.#database.query(`UPDATE runners SET lease_until = now() - interval '1 second' WHERE id = $1`, [
      runnerId,
    ]);
    await this.control.timers.tick();
  }

  /** Every deferred message of this agent becomes due. */
  async makeDue(path: string): Promise<void> {
    await this.#database.query(
      `UPDATE follow_ups f SET deliver_at = f.deliver_at - interval '1 day' FROM agents a
       WHERE a.tenant = $1 AND a.path = $2 AND a.current AND f.tenant = a.tenant AND f.agent = a.id
         AND f.state = 'DEFERRED'`,
      [this.caller.tenant.id, path],
    );
    await this.control.timers.tick();
  }

  /** The delay after a passing fault ends. */
  async endDelay(path: string): Promise<void> {
    await this.#database.query(
      `WITH ended AS (
         UPDATE agents SET claimable_at = now() - interval '1 second'
         WHERE tenant = $1 AND path = $2 AND current AND reason = 'RETRYING' RETURNING id
       )
       UPDATE agent_states SET memory = jsonb_set(memory::jsonb, '{retryAt}', '"2020-01-01T00:00:00.000Z"')::json
       FROM ended WHERE agent = ended.id`,
      [this.caller.tenant.id, path],
    );
  }

  /** The temporary errors of its batch, if there are any, began more than a day ago. */
  async failForADay(path: string): Promise<void> {
    await this.#database.query(
      `UPDATE agent_states SET memory = jsonb_set(memory::jsonb, '{failingSince}', '"2020-01-01T00:00:00.000Z"')::json
       FROM agents a WHERE a.tenant = $1 AND a.path = $2 AND a.current AND agent = a.id
         AND memory ->> 'failingSince' IS NOT NULL`,
      [this.caller.tenant.id, path],
    );
  }

  /** The provider's limit ends. */
  async endLimit(path: string): Promise<void> {
    await this.#database.query(
      `WITH ended AS (
         UPDATE agent_states SET memory = jsonb_set(memory::jsonb, '{limitUntil}', '"2020-01-01T00:00:00.000Z"')::json
         FROM agents a WHERE a.tenant = $1 AND a.path = $2 AND a.current AND agent = a.id
           AND memory ->> 'limitUntil' IS NOT NULL RETURNING a.id
       )
       UPDATE agents SET claimable_at = now() - interval '1 second' FROM ended
       WHERE agents.id = ended.id AND claimable_at IS NOT NULL`,
      [this.caller.tenant.id, path],
    );
  }
}

/** `OK`, or the status of a refusal. */
export const statusOf = (reply: unknown | Refusal): string => (isRefusal(reply) ? reply.status : 'OK');
