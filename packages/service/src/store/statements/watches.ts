import { statement } from '../connection.ts';

/** A row that is not renewed in this time ends. */
export const watchSeconds = 15;

/**
 * Records that a node has streams of these agents, or renews that. `isOpened`: streams that were opened just now. Returns
 * the runners of the agents' live runs.
 */
export const watchAgents = statement<
  [tenants: number[], agents: string[], node: string, isOpened: boolean],
  { runner_id: string }
>(
  'watch-agents',
  `WITH watched AS (
     INSERT INTO watches (tenant, agent, node, opened_at, until)
     SELECT q.tenant, q.agent, $3::uuid, clock_timestamp(), now() + interval '${watchSeconds} seconds'
     FROM unnest($1::int[], $2::uuid[]) AS q (tenant, agent)
     ON CONFLICT (tenant, agent, node) DO UPDATE SET until = excluded.until,
       opened_at = CASE WHEN $4::boolean THEN excluded.opened_at ELSE watches.opened_at END
   )
   SELECT DISTINCT r.runner_id FROM unnest($1::int[], $2::uuid[]) AS q (tenant, agent)
   JOIN agents a ON a.tenant = q.tenant AND a.id = q.agent
   JOIN runs r ON r.tenant = a.tenant AND r.agent = a.id AND r.number = a.run_count AND r.state <> 'ENDED'
   WHERE r.runner_id IS NOT NULL`,
);

/** When the last reader of an agent began to watch it, as a number; null if nobody does. */
export const watchedSince = (tenant: string, agent: string): string =>
  `(SELECT (extract(epoch FROM max(w.opened_at)) * 1000000)::bigint FROM watches w
    WHERE w.tenant = ${tenant} AND w.agent = ${agent} AND w.until > now())`;

export interface WatchersRow {
  agent: string;
  number: number;
  nodes: string[];
}

/** The nodes that watch the agents of these runs, if they are live runs of this runner. */
export const findWatchers = statement<[runnerId: string, agents: string[], runs: number[]], WatchersRow>(
  'find-watchers',
  `SELECT r.agent, r.number, array_agg(w.node::text) AS nodes
   FROM runs r
   JOIN watches w ON w.tenant = r.tenant AND w.agent = r.agent AND w.until > now()
   WHERE r.runner_id = $1 AND r.gone_at IS NULL AND r.state <> 'ENDED'
     AND (r.agent, r.number) IN (SELECT q.agent, q.number FROM unnest($2::uuid[], $3::int[]) AS q (agent, number))
   GROUP BY r.agent, r.number`,
);

/** What was committed. */
export const commitsChannel = 'muster';
/** Live output. Not the same channel: a node of an earlier version would not know what to do with it. */
export const liveChannel = 'muster_live';

/**
 * A lost notification does no harm, so sending one does not wait for the disk. PostgreSQL gives every transaction with
 * a notification an id, and would otherwise flush its log as for a write.
 */
const withoutFlush = "set_config('synchronous_commit', 'off', true)";

export const notifyOfCommits = statement<[payload: string], never>(
  'notify-of-commits',
  `SELECT ${withoutFlush}, pg_notify('${commitsChannel}', $1)`,
);

export const passOn = statement<[payloads: string[]], never>(
  'pass-on',
  `SELECT ${withoutFlush}, pg_notify('${liveChannel}', q.payload) FROM unnest($1::text[]) AS q (payload)`,
);

export const deleteOldWatches = statement<[], never>(
  'delete-old-watches',
  `DELETE FROM watches WHERE until < now() - interval '1 minute'`,
);
