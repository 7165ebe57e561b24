import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { type LabelsOf, type MetricRow, metricTable, type Named } from './metrics-table.ts';
import { version } from './version.ts';

type GaugeRow<N extends Named<'gauge'>> = readonly [labels: LabelsOf<N>, value: number];

/** The metrics of this process, by the names of the table. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #counters = new Map<string, Counter>();
  readonly #gauges = new Map<string, Gauge>();
  readonly #histograms = new Map<string, Histogram>();
  readonly #collectors: (() => Promise<void>)[] = [];

  constructor() {
    for (const [name, { labels = [], buckets, aggregator, starts = [], ...row }] of entries) {
      const { help } = row;
      const options = { name, help, labelNames: [...labels], registers: [this.#registry] };
      const aggregated = aggregator && { aggregator };
      if (row.type === 'counter') this.#counters.set(name, new Counter(options));
      else if (row.type === 'gauge') this.#gauges.set(name, new Gauge({ ...options, ...aggregated }));
      else this.#histograms.set(name, new Histogram({ ...options, buckets: [...(buckets ?? [])] }));
      for (const value of starts) {
        const label = { [labels[0] ?? '']: value };
        this.#counters.get(name)?.inc(label, 0);
        this.#histograms.get(name)?.zero(label);
      }
    }
    // Summed over the workers, it is their number.
    this.put('muster_workers', {}, 1);
    this.put('muster_build_info', { version }, 1);
  }

  /** Adds those of Node and of the process. */
  measureProcess(): void {
    // The library's own measure of the event loop wakes an idle process a hundred times a second.
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: 1_000 });
    for (const { name } of this.#registry.getMetricsAsArray())
      if (name.startsWith('nodejs_eventloop_lag')) this.#registry.removeSingleMetric(name);
  }

  add<N extends Named<'counter'>>(name: N, labels: LabelsOf<N>, count = 1): void {
    this.#counters.get(name)?.inc(labels, count);
  }

  observe<N extends Named<'histogram'>>(name: N, labels: LabelsOf<N>, value: number): void {
    this.#histograms.get(name)?.observe(labels, value);
  }

  change<N extends Named<'gauge'>>(name: N, labels: LabelsOf<N>, by: number): void {
    this.#gauges.get(name)?.inc(labels, by);
  }

  put<N extends Named<'gauge'>>(name: N, labels: LabelsOf<N>, value: number): void {
    this.#gauges.get(name)?.set(labels, value);
  }

  /** Replaces all values of a gauge. */
  set<N extends Named<'gauge'>>(name: N, rows: readonly GaugeRow<N>[]): void {
    const gauge = this.#gauges.get(name);
    gauge?.reset();
    for (const [labels, value] of rows) gauge?.set(labels, value);
  }

  /** What a counter has reached, where something else counts. */
  total<N extends Named<'counter'>>(name: N, count: number): void {
    const counter = this.#counters.get(name);
    counter?.reset();
    counter?.inc(count);
  }

  /** Called before the metrics are read. */
  onRead(collect: () => Promise<void>): void {
    this.#collectors.push(collect);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  async metrics(): Promise<string> {
    await this.#collect();
    return this.#registry.metrics();
  }

  async json(): Promise<MetricsJson> {
    await this.#collect();
    return this.#registry.getMetricsAsJSON();
  }

  async #collect(): Promise<void> {
    // What can't be read now is left out.
    await Promise.allSettled(this.#collectors.map((collect) => collect()));
  }
}

const entries: readonly (readonly [string, MetricRow])[] = Object.entries(metricTable);

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
