import { setTimeout as pause } from 'node:timers/promises';
import type { NotificationEvent } from '@muster/sdk/contract';
import { notificationEvents } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Reads } from '../../packages/service/src/control/agents/read.ts';
import type { Log } from '../../packages/service/src/lib/log.ts';
import { Metrics } from '../../packages/service/src/lib/metrics.ts';
import {
  type Channel,
  isSent,
  type Message,
  type Target,
} from '../../packages/service/src/notify/channel.ts';
import { Composer } from '../../packages/service/src/notify/compose.ts';
import { Deliverer } from '../../packages/service/src/notify/deliver.ts';
import { FanOut } from '../../packages/service/src/notify/fan-out.ts';
import { openDatabase } from '../../packages/service/src/store/connection.ts';
import { type NewEvent, recordEvents } from '../../packages/service/src/store/statements/events.ts';
import { dueTargets, saveTarget } from '../../packages/service/src/store/statements/notifications.ts';
import { TenantMasks } from '../../packages/service/src/work/tenant-masks.ts';
import { loopOf, WorkLoops } from '../../packages/service/src/work/work-loops.ts';
import { freshDatabase, insertAgentRow } from '../support/database.ts';

export interface DeliveryRow {
  readonly target: string;
  readonly type: string;
  readonly state: string;
  readonly error: string;
  readonly attempts: number;
  readonly digest: number | null;
}

interface TargetFields {
  readonly tenant?: number;
  readonly events?: readonly NotificationEvent[];
  readonly workspace?: string;
  readonly account?: string;
  readonly labels?: Record<string, string>;
  readonly paused?: boolean;
  readonly settings?: unknown;
}

/** What decides whom to tell and when, on a database, with a channel that the test plays. */
export class DeliveryBench {
  readonly pool: pg.Pool;
  readonly metrics = new Metrics();
  /** By target. */
  readonly sent = new Map<string, Message[]>();
  readonly ended: string[] = [];
  /** What the channel does instead of taking the message. */
  play: (target: Target, message: Message) => Promise<void> | void = () => {};
  settleMs = 0;
  readonly #drop: () => Promise<void>;
  #agents = 0;

  private constructor(pool: pg.Pool, drop: () => Promise<void>) {
    this.pool = pool;
    this.#drop = drop;
  }

  static async start(): Promise<DeliveryBench> {
    const database = await freshDatabase();
    const pool = openDatabase({ connectionString: database.url }, () => {});
    await pool.query(
      "INSERT INTO tenants (id, provider, org) VALUES (1, 'PROVIDER_CODEHOST_APP', 'a'), (2, 'PROVIDER_CODEHOST_APP', 'b')",
    );
    return new DeliveryBench(pool, database.drop);
  }

  async close(): Promise<void> {
    await this.pool.end();
    await this.#drop();
  }

  async reset(): Promise<void> {
    await this.pool.query('TRUNCATE events, notification_targets, notification_deliveries');
    this.sent.clear();
    this.ended.length = 0;
    this.play = () => {};
    this.settleMs = 0;
  }

  target(name: string, fields: TargetFields = {}): Promise<unknown> {
    const { tenant = 1, events = notificationEvents, workspace = '', account = '', labels = {} } = fields;
    const { paused = false, settings = {} } = fields;
    return saveTarget(
      this.pool,
      ...([tenant, name, 'played', events, workspace, account] as const),
      ...([JSON.stringify(labels), paused, JSON.stringify(settings)] as const),
    );
  }

  /** An agent that has just asked something. */
  async agent(fields: Record<string, unknown> = {}): Promise<string> {
    const client = await this.pool.connect();
    try {
      this.#agents += 1;
      const { since = new Date().toISOString(), ...rest } = fields;
      const asking = { tenant: 1, phase: 'PHASE_WAITING_FOR_INPUT', reason: 'QUESTION', since };
      return await insertAgentRow(client as unknown as pg.Client, this.#agents, {
        ...{ ...asking, owner_provider: 'PROVIDER_CODEHOST_OAUTH' },
        ...rest,
      });
    } finally {
      client.release();
    }
  }

  /** The agent asks, as its row says. */
  async asks(agent: string): Promise<void> {
    const { rows } = await this.pool.query<{
      tenant: number;
      since: string;
      phase: 'PHASE_WAITING_FOR_INPUT';
    }>('SELECT tenant, since, phase FROM agents WHERE id = $1', [agent]);
    const [{ tenant = 1, since: at = '', phase } = {}] = rows;
    const data = { ...(phase && { phase }), reason: 'QUESTION' } as const;
    await this.happens({ tenant, type: 'agent.needs_input', agent, at, data });
  }

  /** Agents that have all just asked something. */
  async manyAsk(count: number): Promise<void> {
    const first = await this.agent();
    const { rows: names } = await this.pool.query<{ name: string }>(
      `SELECT column_name AS name FROM information_schema.columns WHERE table_name = 'agents'
         AND is_generated = 'NEVER' AND column_name NOT IN ('id', 'path', 'root')`,
    );
    const columns = names.map(({ name }) => name).join(', ');
    const { rows } = await this.pool.query<{ id: string; since: string }>(
      `INSERT INTO agents (id, path, root, ${columns})
       SELECT n.id, 'many-' || n.n, n.id, ${columns} FROM agents a
       CROSS JOIN (SELECT gen_random_uuid() AS id, n FROM generate_series(1, $2::int) n) n WHERE a.id = $1
       RETURNING id, since`,
      [first, count],
    );
    const data = { phase: 'PHASE_WAITING_FOR_INPUT', reason: 'QUESTION' } as const;
    await this.happens(
      ...rows.map(
        ({ id: agent, since: at }) => ({ tenant: 1, type: 'agent.needs_input', agent, at, data }) as const,
      ),
    );
  }

  happens = (...events: readonly NewEvent[]): Promise<void> => recordEvents(this.pool, events);

  /** It goes on: somebody has answered. */
  answered = (agent: string): Promise<unknown> =>
    this.pool.query(
      "UPDATE agents SET phase = 'PHASE_RUNNING', reason = 'WORKING', since = now() WHERE id = $1",
      [agent],
    );

  /** Looks at what is due until nothing is. */
  async settle(): Promise<void> {
    const log = { warn: console.error, error: console.error } as unknown as Log;
    const { pool: database, metrics, settleMs } = this;
    const masks = new TenantMasks({ values: async () => ['a-secret-value'], earlierValues: async () => [] });
    const reads = {
      status: async ({ key }: { key: { tenant: number; id: string } }) => ({
        agentId: { agent: [key.id.slice(-4)], workspace: 'default', account: 'ada' },
        ...{
          phase: 'PHASE_WAITING_FOR_INPUT',
          phaseReason: 'QUESTION',
          phaseSince: '',
          dashboardUrl: `http://m/${key.id}`,
        },
        ...{ needsInput: 'Is a-secret-value right?', response: '', error: null },
      }),
    } as unknown as Reads;
    const composer = new Composer({ database, masks, reads, publicUrl: () => 'http://m' });
    const channel: Channel = {
      send: async (target, message) => {
        await this.play(target, message);
        this.sent.set(target.name, [...(this.sent.get(target.name) ?? []), message]);
        return isSent;
      },
      end: async ({ name }, reason) => void this.ended.push(`${name}: ${reason}`),
    };
    const deliverer = new Deliverer({ database, composer, masks, metrics, channels: { played: channel } });
    const work = new WorkLoops({ database, log }, [
      (shared) => new FanOut({ ...shared, settleMs }),
      loopOf('notification', dueTargets, deliverer),
    ]);
    while (await this.#isDue()) {
      work.nudge();
      await pause(5);
    }
    await work.close();
  }

  async #isDue(): Promise<boolean> {
    const { rows } = await this.pool.query<{ is_due: boolean }>(
      `SELECT EXISTS (SELECT FROM events)
         OR EXISTS (SELECT FROM notification_targets WHERE next_at <= now() OR is_claimed) AS is_due`,
    );
    return rows[0]?.is_due === true;
  }

  /** As if this time had passed. */
  async later(interval: string): Promise<void> {
    await this.pool.query(
      `UPDATE notification_targets SET next_at = next_at - $1::interval, digest_at = digest_at - $1::interval,
         held_until = held_until - $1::interval,
         recent = ARRAY(SELECT to_char((r::timestamptz - $1::interval) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') FROM unnest(recent) r)`,
      [interval],
    );
    await this.pool.query('UPDATE notification_deliveries SET next_at = next_at - $1::interval', [interval]);
  }

  async rows(): Promise<DeliveryRow[]> {
    const { rows } = await this.pool.query<DeliveryRow>(
      'SELECT target, type, state, error, attempts, digest FROM notification_deliveries ORDER BY id',
    );
    return rows;
  }

  titles = (target: string): string[] => (this.sent.get(target) ?? []).map(({ title }) => title);
}
