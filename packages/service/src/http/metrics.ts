import type { FastifyInstance, FastifyRequest } from 'fastify';
import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Log } from '../lib/log.ts';
import type { Tracer } from '../lib/traces/tracer.ts';
import { version } from '../lib/version.ts';

/** The metrics at `/metrics`. No label contains a tenant. */
export class Metrics {
  readonly registry = new Registry();
  readonly requests = new Histogram({
    name: 'muster_http_request_seconds',
    help: 'Duration of requests, by route and status.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30],
    registers: [this.registry],
  });
  readonly batches = new Histogram({
    name: 'muster_batch_commands',
    help: 'Commands per commit.',
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
    registers: [this.registry],
  });
  readonly #maintenance = new Histogram({
    name: 'muster_maintenance_seconds',
    help: 'Duration of each task of maintenance, on the node that does it.',
    labelNames: ['task'],
    buckets: [0.01, 0.1, 1, 10, 60, 600, 3600],
    registers: [this.registry],
  });
  readonly #maintenanceDone = new Gauge({
    name: 'muster_maintenance_last_success_timestamp_seconds',
    help: 'When this node last finished each task of maintenance; a time long ago means that old data piles up.',
    labelNames: ['task'],
    aggregator: 'max',
    registers: [this.registry],
  });
  readonly longReplies = new Gauge({
    name: 'muster_long_replies_open',
    help: 'Open waits, streams and polls of runners.',
    labelNames: ['kind'],
    registers: [this.registry],
  });
  readonly loopDelay = new Histogram({
    name: 'muster_event_loop_delay_seconds',
    help: 'How late a timer fired, which is how long everything else waited.',
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30],
    registers: [this.registry],
  });

  readonly #quotaRatio = new Gauge({
    name: 'muster_quota_largest_use_ratio',
    help: 'What the tenant that uses most of a quota uses of it; 1 is all. On the node that does maintenance.',
    labelNames: ['quota'],
    aggregator: 'max',
    registers: [this.registry],
  });
  readonly #quotaTenants = new Gauge({
    name: 'muster_quota_nearly_full_tenants',
    help: 'Tenants that use more than 80 % of a quota. On the node that does maintenance.',
    labelNames: ['quota'],
    aggregator: 'max',
    registers: [this.registry],
  });

  quotaUse(uses: readonly { quota: string; largestRatio: number; nearlyFull: number }[]): void {
    this.#quotaRatio.reset();
    this.#quotaTenants.reset();
    for (const { quota, largestRatio, nearlyFull } of uses) {
      this.#quotaRatio.set({ quota }, largestRatio);
      this.#quotaTenants.set({ quota }, nearlyFull);
    }
  }

  maintained(task: string, seconds: number): void {
    this.#maintenance.observe({ task }, seconds);
    this.#maintenanceDone.setToCurrentTime({ task });
  }

  /** `queriesSent`: how many queries this node has sent to the database so far. */
  constructor(queriesSent: () => number, tracer?: Pick<Tracer, 'dropped'>) {
    // The library's own measure of the event loop wakes an idle process a hundred times a second.
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision: 1_000 });
    for (const { name } of this.registry.getMetricsAsArray())
      if (name.startsWith('nodejs_eventloop_lag')) this.registry.removeSingleMetric(name);
    new Gauge({
      name: 'muster_build_info',
      help: 'The version of the service, as a label; always 1.',
      labelNames: ['version'],
      aggregator: 'max',
      registers: [this.registry],
    }).set({ version }, 1);
    // Summed over the workers, it is their number.
    new Gauge({
      name: 'muster_workers',
      help: 'Workers that serve requests.',
      registers: [this.registry],
    }).set(1);
    new Counter({
      name: 'muster_trace_spans_dropped_total',
      help: 'Spans that were not sent because the queue was full or the collector refused them.',
      registers: [this.registry],
      collect() {
        this.reset();
        this.inc(tracer?.dropped ?? 0);
      },
    });
    new Counter({
      name: 'muster_store_queries_total',
      help: 'Queries this node has sent to the database.',
      registers: [this.registry],
      collect() {
        this.reset();
        this.inc(queriesSent());
      },
    });
  }
}

export type MetricsJson = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/**
 * The metrics of all workers together: each is added up, unless it says otherwise (`aggregator`). A worker that does not
 * answer counts with what it said last. What a worker that ended had counted stays in the sum: Prometheus takes a total
 * that decreases for a restart of the whole service.
 */
export class SummedMetrics {
  readonly #last = new Map<number, MetricsJson>();
  #ended: MetricsJson = [];

  sum(ofWorkers: ReadonlyMap<number, MetricsJson>): Promise<string> {
    for (const [worker, metrics] of ofWorkers) this.#last.set(worker, metrics);
    return AggregatorRegistry.aggregate([...this.#last.values(), this.#ended]).metrics();
  }

  left(worker: number): void {
    const counts = (this.#last.get(worker) ?? []).filter(({ type }) => countingTypes.includes(String(type)));
    this.#last.delete(worker);
    this.#ended = AggregatorRegistry.aggregate([this.#ended, counts]).getMetricsAsArray() as MetricsJson;
  }
}

/** Types of metrics that only increase. */
const countingTypes = ['counter', 'histogram'];

const tickMs = 50;
const stallMs = 200;
const maxRoutes = 20;

/** By method. */
type ActiveRoutes = Map<string, Set<string>>;

const namesOf = (active: ActiveRoutes): string[] =>
  [...active].flatMap(([method, routes]) => [...routes].map((route) => `${method} ${route}`));

/**
 * Measures how long the event loop is blocked, by a timer that fires late. A stall is logged with the routes that were
 * active in this tick and the one before. One of them is the cause, or a run of this process's own runner. Returns a
 * function that notes a request as active.
 */
export function watchEventLoop(
  app: FastifyInstance,
  metrics: Metrics,
  log: Log,
): (request: FastifyRequest) => void {
  let active: ActiveRoutes = new Map();
  let activeBefore = active;
  let dueMs = performance.now() + tickMs;
  let cpu = process.cpuUsage();

  const note = ({ method, route }: FastifyRequest) => {
    const routes = active.get(method);
    if (!routes) active.set(method, new Set([route]));
    else if (routes.size < maxRoutes) routes.add(route);
  };
  const timer = setInterval(() => {
    const nowMs = performance.now();
    const lateMs = Math.max(0, nowMs - dueMs);
    metrics.loopDelay.observe(lateMs / 1000);
    if (lateMs > stallMs) {
      const { user, system } = process.cpuUsage(cpu);
      log.warn(
        {
          ms: Math.round(lateMs),
          cpuMs: Math.round((user + system) / 1000),
          routes: [...new Set([...namesOf(activeBefore), ...namesOf(active)])],
        },
        'event loop stalled',
      );
    }
    cpu = process.cpuUsage();
    dueMs = nowMs + tickMs;
    activeBefore = active;
    active = new Map();
  }, tickMs);
  timer.unref();
  app.addHook('onClose', (_app, done) => {
    clearInterval(timer);
    done();
  });
  return note;
}
