import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** What Prometheus may read. No label names a tenant. */
export class Metrics {
  readonly registry = new Registry();
  readonly #requests = new Histogram({
    name: 'muster_http_request_seconds',
    help: 'How long requests took, by route and status.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30],
    registers: [this.registry],
  });
  readonly #batches = new Histogram({
    name: 'muster_batch_commands',
    help: 'How many commands shared one commit.',
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
    registers: [this.registry],
  });
  readonly #longReplies = new Gauge({
    name: 'muster_long_replies_open',
    help: 'Waits, streams and polls of runners that are open.',
    labelNames: ['kind'],
    registers: [this.registry],
  });

  readonly #loopDelay = new Histogram({
    name: 'muster_event_loop_delay_seconds',
    help: 'How late a timer of the event loop fired: how long everything else waited.',
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30],
    registers: [this.registry],
  });

  /** `queriesSent`: how many queries this node has sent to the store so far. */
  constructor(queriesSent: () => number) {
    // Its own measure of the event loop wakes an idle process a hundred times a second, and tells no more than ours.
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision: 1_000 });
    for (const { name } of this.registry.getMetricsAsArray())
      if (name.startsWith('nodejs_eventloop_lag')) this.registry.removeSingleMetric(name);
    new Counter({
      name: 'muster_store_queries_total',
      help: 'Queries this node has sent to the store.',
      registers: [this.registry],
      collect() {
        this.reset();
        this.inc(queriesSent());
      },
    });
  }

  observeRequest(method: string, route: string, status: number, seconds: number): void {
    this.#requests.observe({ method, route, status: String(status) }, seconds);
  }

  observeBatch(size: number): void {
    this.#batches.observe(size);
  }

  observeLoopDelay(seconds: number): void {
    this.#loopDelay.observe(seconds);
  }

  /** Counts a long reply as open until the returned function is called. */
  openLong(kind: 'wait' | 'stream' | 'poll'): () => void {
    this.#longReplies.inc({ kind });
    return () => this.#longReplies.dec({ kind });
  }
}
