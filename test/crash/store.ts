import pg from 'pg';

/** Nothing else is stored of an agent that was deleted. */
const isKept = 'NOT EXISTS (SELECT FROM deleted_agents d WHERE d.tenant = a.tenant AND d.agent = a.id)';

/** Rules that hold between transactions. Each query finds violations of one. */
const rules: Readonly<Record<string, string>> = {
  'the timeline of an agent has a gap': `
    SELECT agent FROM timeline GROUP BY tenant, agent
    HAVING min(sequence) <> 1 OR max(sequence) <> count(*)`,
  'a timeline is not as long as its agent says': `
    SELECT a.path FROM agents a WHERE a.sequence <>
      (SELECT count(*) FROM timeline t WHERE t.tenant = a.tenant AND t.agent = a.id) AND ${isKept}`,
  'a follow-up was delivered more than once': `
    SELECT agent, follow_up_id FROM timeline WHERE type = 'FOLLOW_UP_DELIVERED'
    GROUP BY tenant, agent, follow_up_id HAVING count(*) > 1`,
  'a follow-up was queued more than once': `
    SELECT agent, follow_up_id FROM timeline GROUP BY tenant, agent, follow_up_id
    HAVING count(*) FILTER (WHERE type = 'FOLLOW_UP_QUEUED') >
      1 + count(*) FILTER (WHERE type IN ('FOLLOW_UP_REMOVED', 'FOLLOW_UP_CLEARED'))`,
  'follow-ups were delivered in another order than they were queued': `
    SELECT agent FROM (
      SELECT q.agent, d.sequence < lag(d.sequence) OVER (PARTITION BY q.agent ORDER BY q.sequence) AS early
      FROM timeline q JOIN timeline d ON d.agent = q.agent AND d.follow_up_id = q.follow_up_id
      WHERE q.type = 'FOLLOW_UP_QUEUED' AND d.type = 'FOLLOW_UP_DELIVERED') o WHERE early`,
  'an agent miscounts its queue': `
    SELECT a.path FROM agents a WHERE (a.queued, a.deferred) <> (
      SELECT count(*) FILTER (WHERE f.state = 'QUEUED'), count(*) FILTER (WHERE f.state = 'DEFERRED')
      FROM follow_ups f WHERE f.tenant = a.tenant AND f.agent = a.id)`,
  'an idle or ended agent has a queued message': `
    SELECT a.path, f.id FROM agents a JOIN follow_ups f ON f.tenant = a.tenant AND f.agent = a.id
    WHERE f.state = 'QUEUED' AND a.phase NOT IN ('PHASE_PENDING', 'PHASE_RUNNING')`,
  'run numbers have a gap': `
    SELECT a.path FROM agents a WHERE a.run_count <>
      (SELECT count(*) FROM runs r WHERE r.tenant = a.tenant AND r.agent = a.id) AND ${isKept}`,
  'an agent has two live runs': `
    SELECT agent FROM runs WHERE state <> 'ENDED' GROUP BY tenant, agent HAVING count(*) > 1`,
  'a run has started or ended more than once': `
    SELECT agent, run, type FROM timeline WHERE type IN ('RUN_STARTED', 'RUN_ENDED')
    GROUP BY tenant, agent, run, type HAVING count(*) > 1`,
  'a canceled agent has a live descendant': `
    SELECT d.path FROM agents a JOIN agents d ON a.id = ANY (d.ancestors)
    WHERE a.phase = 'PHASE_CANCELED' AND d.ended_at IS NULL`,
  'a generation is missing from the history of a resource': `
    SELECT r.kind, r.name FROM resources r WHERE r.generation <>
      (SELECT count(*) FROM resource_history h
       WHERE h.tenant = r.tenant AND h.kind = r.kind AND h.name = r.name)`,
};

/** Agents that are neither idle nor ended. */
const notIdle = `
  SELECT path, phase, reason FROM agents
  WHERE phase NOT IN ('PHASE_WAITING_FOR_INPUT', 'PHASE_COMPLETED', 'PHASE_FAILED', 'PHASE_CANCELED')`;

/** The database of the service, queried directly: what was acknowledged must be in it. */
export class Store {
  readonly #database: pg.Pool;

  constructor(database: pg.Pool) {
    this.#database = database;
  }

  static async open(url: string): Promise<Store> {
    const database = new pg.Pool({ connectionString: url, max: 2 });
    // A killed server is the error of a query, if one is running.
    database.on('error', () => {});
    database.on('connect', (client) => client.on('error', () => {}));
    await database.query('SELECT');
    return new Store(database);
  }

  async rows<Row extends pg.QueryResultRow>(sql: string, parameters: unknown[] = []): Promise<Row[]> {
    return (await this.#database.query<Row>(sql, parameters)).rows;
  }

  async count(sql: string, parameters: unknown[] = []): Promise<number> {
    const [row] = await this.rows<{ count: string }>(
      `SELECT count(*) AS count FROM (${sql}) rows`,
      parameters,
    );
    return Number(row?.count);
  }

  /** The rules that do not hold, with examples. */
  async violations(): Promise<string[]> {
    const found: string[] = [];
    for (const [rule, sql] of Object.entries(rules)) {
      const rows = await this.rows(`${sql} LIMIT 3`);
      if (rows.length > 0) found.push(`${rule}: ${JSON.stringify(rows)}`);
    }
    return found;
  }

  agentsNotIdle(): Promise<pg.QueryResultRow[]> {
    return this.rows(`${notIdle} LIMIT 5`);
  }

  /** The values that are not in this column. */
  async missing(table: string, column: string, wanted: readonly string[]): Promise<string[]> {
    const rows = await this.rows<{ value: string }>(
      `SELECT w.value FROM unnest($1::text[]) w (value)
       WHERE NOT EXISTS (SELECT FROM ${table} t WHERE t.${column}::text = w.value)`,
      [wanted],
    );
    return rows.map(({ value }) => value);
  }

  async close(): Promise<void> {
    await this.#database.end().catch(() => {});
  }
}

export async function lookInto<T>(url: string, look: (store: Store) => Promise<T>): Promise<T> {
  const store = await Store.open(url);
  try {
    return await look(store);
  } finally {
    await store.close();
  }
}
