import { runOutcomes } from '@muster/sdk/contract';

/**
 * Every metric of the service. Labels have few values, which neither a caller nor an agent chooses: names of pools are the
 * exception, and beyond the first ones they are counted as `other`.
 *
 * `counts` are of rows in the database: every node has the same number, so take the maximum over nodes. Of everything
 * else, take the sum.
 */
export interface MetricRow {
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** Also its line in docs/operations.md, where a vertical bar would end the cell. */
  readonly help: string;
  readonly labels?: readonly string[];
  readonly buckets?: readonly number[];
  /** Values of the first label that are 0 from the start: Prometheus can't see the increase to a first value. */
  readonly starts?: readonly string[];
  /** Of the workers of a service; by default they are added up. */
  readonly aggregator?: 'max' | 'min';
  readonly counts?: true;
}

const short = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30];
const long = [0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400];

/** Counted in the database. */
const counts = { type: 'gauge', aggregator: 'max', counts: true } as const;

export const metricTable = {
  muster_http_request_seconds: {
    type: 'histogram',
    help: 'Duration of requests. Waits and polls are included and are long by design.',
    labels: ['method', 'route', 'status'],
    buckets: short,
  },
  muster_long_replies_open: {
    type: 'gauge',
    help: 'Open waits, streams and polls of runners.',
    labels: ['kind'],
  },
  muster_event_loop_delay_seconds: {
    type: 'histogram',
    help: 'How late a timer fired, which is how long everything else on this node waited.',
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30],
  },

  muster_agents: { ...counts, help: 'Agents that have not ended.', labels: ['phase', 'reason'] },
  muster_agents_claimable: { ...counts, help: 'Agents that wait for a runner.', labels: ['pool'] },
  muster_agents_claimable_oldest_seconds: {
    ...counts,
    help: 'How long the agent that has waited longest for a runner has waited.',
    labels: ['pool'],
  },
  muster_messages: {
    ...counts,
    help: 'Messages that wait for a run (QUEUED) or a time (DEFERRED).',
    labels: ['state'],
  },
  muster_messages_oldest_seconds: {
    ...counts,
    help: 'How long ago the oldest of these could have been delivered.',
    labels: ['state'],
  },
  muster_runs_started_total: {
    type: 'counter',
    help: 'Runs that a runner has claimed.',
    labels: ['backend'],
  },
  muster_claim_wait_seconds: {
    type: 'histogram',
    help: 'How long agents waited for a runner before each run.',
    buckets: long,
  },
  muster_run_seconds: {
    type: 'histogram',
    help: 'Duration of runs that ended; its count is the number of these runs.',
    labels: ['outcome'],
    starts: runOutcomes,
    buckets: long,
  },

  muster_runners: {
    ...counts,
    help: 'Live runners: ready, disk_full or leaving.',
    labels: ['pool', 'state'],
  },
  muster_runners_wanted: {
    ...counts,
    help: 'Runners that the live runs and the waiting agents need, as the demand of the pool says.',
    labels: ['pool'],
  },
  muster_runner_slots: {
    ...counts,
    help: 'Slots of live runners: free (for models, of runners that take runs) or used.',
    labels: ['pool', 'state'],
  },
  muster_runner_lease_losses_total: { type: 'counter', help: 'Runners that vanished without leaving.' },

  muster_provider_request_seconds: {
    type: 'histogram',
    help: 'Duration of requests to models, as runners report them; its count is the number of requests.',
    labels: ['provider', 'family', 'outcome'],
    buckets: [0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300],
  },
  muster_provider_first_byte_seconds: {
    type: 'histogram',
    help: 'Time until the first byte of an answer of a model, which for a stream is about the time to the first token.',
    labels: ['provider', 'family'],
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  },
  muster_provider_tokens_total: {
    type: 'counter',
    help: 'Tokens that models used: input (with the cached ones), cached_input or output.',
    labels: ['provider', 'family', 'type'],
  },
  muster_provider_cost_usd_total: {
    type: 'counter',
    help: 'What these tokens cost, in USD.',
    labels: ['provider', 'family'],
  },
  muster_provider_limit_wait_seconds: {
    type: 'histogram',
    help: 'How long gateways waited before they sent a request again because of a rate limit.',
    labels: ['provider'],
    buckets: [1, 5, 10, 30, 60],
  },

  muster_checkpoints_saved_total: { type: 'counter', help: 'Checkpoints that were completed.' },
  muster_checkpoint_bytes_total: {
    type: 'counter',
    help: 'Bytes of the parts of checkpoints that were saved.',
  },
  muster_checkpoint_failures_total: { type: 'counter', help: 'Checkpoints that runners could not save.' },

  muster_deliveries_waiting: {
    ...counts,
    help: 'Deliveries of code hosts and to triggers that are not processed: new, or retrying after a failure.',
    labels: ['state'],
  },
  muster_deliveries_oldest_seconds: { ...counts, help: 'Age of the oldest of these.' },
  muster_deliveries_settled_total: {
    type: 'counter',
    help: 'Deliveries of code hosts and to triggers that were processed: DONE, IGNORED or FAILED.',
    labels: ['state'],
    starts: ['DONE', 'IGNORED', 'FAILED'],
  },
  muster_schedule_fires_total: {
    type: 'counter',
    help: 'Times of schedules that were FIRED, SKIPPED or FAILED.',
    labels: ['outcome'],
    starts: ['FIRED', 'SKIPPED', 'FAILED'],
  },
  muster_outbox_waiting: {
    ...counts,
    help: 'Replies to code hosts that are not sent: new, or retrying after a failure.',
    labels: ['state'],
  },
  muster_outbox_oldest_seconds: { ...counts, help: 'Age of the oldest of these.' },
  muster_outbox_settled_total: {
    type: 'counter',
    help: 'Replies to code hosts that need nothing more: SENT, DROPPED or FAILED.',
    labels: ['state'],
    starts: ['SENT', 'DROPPED', 'FAILED'],
  },

  muster_notifications_total: {
    type: 'counter',
    help: 'Messages and events for targets of notifications, by type of the target: sent, dropped, failed, or postponed after a failure.',
    labels: ['type', 'outcome'],
  },

  muster_batch_commands: {
    type: 'histogram',
    help: 'Commands per commit.',
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
  },
  muster_transaction_seconds: {
    type: 'histogram',
    help: 'Duration of transactions of commands: committed, or failed.',
    labels: ['outcome'],
    buckets: short,
  },
  muster_store_queries_total: { type: 'counter', help: 'Queries this node has sent to the database.' },
  muster_database_connections: {
    type: 'gauge',
    help: 'Connections of this node to the database: busy or idle; and waiting, the requests for one.',
    labels: ['state'],
  },
  muster_disk_free_bytes: {
    type: 'gauge',
    help: "Free space on the disk of this node's data folder.",
    aggregator: 'min',
  },
  muster_disk_bytes: { type: 'gauge', help: 'Size of that disk.', aggregator: 'min' },

  muster_maintenance_seconds: {
    type: 'histogram',
    help: 'Duration of each task of maintenance, on the node that does it.',
    labels: ['task'],
    buckets: [0.01, 0.1, 1, 10, 60, 600, 3600],
  },
  muster_maintenance_last_success_timestamp_seconds: {
    type: 'gauge',
    help: 'When this node last finished each task of maintenance; a time long ago means that old data piles up.',
    labels: ['task'],
    aggregator: 'max',
  },
  muster_quota_largest_use_ratio: {
    type: 'gauge',
    help: 'What the tenant that uses most of a quota uses of it; 1 is all. On the node that does maintenance.',
    labels: ['quota'],
    aggregator: 'max',
  },
  muster_quota_nearly_full_tenants: {
    type: 'gauge',
    help: 'Tenants that use more than 80 % of a quota. On the node that does maintenance.',
    labels: ['quota'],
    aggregator: 'max',
  },
  muster_trace_spans_dropped_total: {
    type: 'counter',
    help: 'Spans of traces that were not sent, because the queue was full or the collector refused them.',
  },
  muster_build_info: {
    type: 'gauge',
    help: 'The version of the service, as a label; always 1.',
    labels: ['version'],
    aggregator: 'max',
  },
  muster_workers: { type: 'gauge', help: 'Workers that serve requests.' },
} as const satisfies Readonly<Record<string, MetricRow>>;

type Table = typeof metricTable;

export const countedMetrics = Object.entries<MetricRow>(metricTable).flatMap(([name, { counts }]) =>
  counts ? [name as Named<'gauge'>] : [],
);

/** The names of the metrics of a type. */
export type Named<T extends MetricRow['type']> = {
  [N in keyof Table]: Table[N]['type'] extends T ? N : never;
}[keyof Table];

/** The labels of a metric. Every one of them is given. */
export type LabelsOf<N extends keyof Table> = Table[N] extends {
  readonly labels: readonly (infer L extends string)[];
}
  ? Readonly<Record<L, string | number>>
  : Readonly<Record<never, never>>;
