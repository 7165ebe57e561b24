import type pg from 'pg';
import type { Log } from '../lib/log.ts';
import { Metrics } from '../lib/metrics.ts';
import { backendsOf, type ModelTable } from '../lib/models.ts';
import type { ServiceSecrets } from '../lib/service-secret.ts';
import type { OtherWorkers } from '../lib/worker-channel.ts';
import type { DatabaseConfig } from '../store/connection.ts';
import { postgresAgentStore } from '../store/postgres-agent-store.ts';
import { readReadiness } from '../store/statements/tick.ts';
import { BrowserSessions } from './access/browser-sessions.ts';
import { DeviceLogins } from './access/device-logins.ts';
import { Keys } from './access/keys.ts';
import { SignInCodes } from './access/sign-in-codes.ts';
import { Tenants } from './access/tenants.ts';
import { Attachments } from './agents/attachments.ts';
import { BudgetCounts } from './agents/budget-counts.ts';
import { Lists } from './agents/lists.ts';
import type { ServiceModels } from './agents/make-commands.ts';
import { OwnRuns } from './agents/own-runs.ts';
import { PageTokens } from './agents/page-tokens.ts';
import { Reads } from './agents/read.ts';
import { Spawns } from './agents/spawn.ts';
import { Targets } from './agents/targets.ts';
import { Usage } from './agents/usage.ts';
import { type Transact, type TransactOptions, transact } from './batches/transact.ts';
import { Catalog } from './catalog/catalog.ts';
import { sealAgain } from './catalog/seal-again.ts';
import { operationsOf } from './operations.ts';
import { blockOnStateError } from './runners/block-on-state-error.ts';
import { Checkpoints } from './runners/checkpoints.ts';
import { HeldRuns } from './runners/held-runs.ts';
import { PoolRunners } from './runners/pool-runners.ts';
import { RunCredits } from './runners/run-credits.ts';
import { noteRuns } from './runners/run-notes.ts';
import { Runners } from './runners/runners.ts';
import { Schedules } from './schedules/schedules.ts';
import { Maintenance, type MaintenanceOptions } from './upkeep/maintenance.ts';
import { type QuotaLimits, Quotas } from './upkeep/quotas.ts';
import { RowCounts } from './upkeep/row-counts.ts';
import { Timers } from './upkeep/timers.ts';
import { LiveOutputRelay } from './watching/live-output-relay.ts';
import { NodeBus } from './watching/node-bus.ts';
import { Waits } from './watching/waits.ts';
import { Wakes } from './watching/wakes.ts';

export interface ControlOptions {
  readonly database: pg.Pool;
  readonly connection: DatabaseConfig;
  readonly log: Log;
  readonly secrets: ServiceSecrets;
  readonly publicUrl: () => string;
  readonly defaultModel: string;
  /** The model names that the operator added. */
  readonly models: ModelTable;
  readonly leaseMs: number;
  /** How long entries are kept, and how many of a live agent. */
  readonly timelineDays: number;
  readonly timelineEntries: number;
  readonly quotas: QuotaLimits;
  /** Without it, metrics are counted and nobody reads them. */
  readonly metrics?: Metrics;
  /** Null when this process serves its port alone. */
  readonly workers: OtherWorkers | null;
}

/**
 * The parts of control, put together. `operations` are those of the API that need only a caller and a body: each finds the
 * agent, checks the caller's permission, and sends a command or reads.
 */
export class Control {
  readonly keys: Keys;
  readonly tenants: Tenants;
  readonly catalog: Catalog;
  readonly operations: ReturnType<typeof operationsOf>;
  readonly spawns: Spawns;
  readonly targets: Targets;
  readonly reads: Reads;
  readonly lists: Lists;
  readonly usage: Usage;
  readonly schedules: Schedules;
  readonly ownRuns: OwnRuns;
  readonly runners: Runners;
  readonly poolRunners: PoolRunners;
  readonly waits: Waits;
  readonly attachments: Attachments;
  readonly browserSessions: BrowserSessions;
  readonly signInCodes: SignInCodes;
  readonly deviceLogins: DeviceLogins;
  readonly live: LiveOutputRelay;
  readonly wakes = new Wakes();
  readonly timers: Timers;
  readonly transact: Transact;
  readonly pageTokens: PageTokens;
  readonly metrics: Metrics;
  readonly models: ServiceModels;
  readonly #bus: NodeBus;
  readonly #maintenance: Maintenance;
  readonly #database: pg.Pool;
  readonly #log: Log;
  readonly #quotas: Quotas;
  #hasStarted = false;

  constructor(options: ControlOptions) {
    const { database, log, publicUrl, metrics = new Metrics() } = options;
    this.metrics = metrics;
    this.#database = database;
    this.#log = log;
    this.models = { defaultModel: options.defaultModel, ownModels: backendsOf(options.models) };
    this.#quotas = new Quotas(database, options.quotas, log);
    this.transact = this.#quotas.around(this.#batches());
    this.tenants = new Tenants(database);
    this.keys = new Keys(database, options.secrets, options.workers);
    this.pageTokens = new PageTokens(options.secrets);
    this.reads = new Reads(database, this.tenants, publicUrl, (runner) => this.runners.isAbsent(runner));
    this.targets = new Targets(database, this.tenants, this.reads);
    const shared = {
      ...{ ...options, metrics },
      tenants: this.tenants,
      keys: this.keys,
      pageTokens: this.pageTokens,
      reads: this.reads,
      targets: this.targets,
      quotas: this.#quotas,
      ownModels: this.models.ownModels,
      wakes: this.wakes,
      transact: this.transact,
      counts: new BudgetCounts(database),
      blockOnStateError: blockOnStateError(this.transact, log),
    };
    this.catalog = new Catalog(shared);
    this.lists = new Lists(shared);
    this.usage = new Usage(shared);
    this.ownRuns = new OwnRuns(database, this.transact, this.reads);
    this.waits = new Waits(this.targets, this.reads, this.wakes, this.ownRuns);
    this.runners = new Runners({ ...shared, catalog: this.catalog });
    this.poolRunners = new PoolRunners({ ...shared, catalog: this.catalog, runners: this.runners });
    const heldRuns = new HeldRuns(database, this.tenants);
    this.attachments = new Attachments(database, heldRuns, this.#quotas);
    this.browserSessions = new BrowserSessions(shared);
    this.signInCodes = new SignInCodes(database);
    this.deviceLogins = new DeviceLogins(shared);
    this.timers = new Timers(shared);
    this.#maintenance = new Maintenance({
      ...options,
      sealAgain: () => sealAgain(database, options.secrets),
      ...maintenanceNotes(metrics),
    });
    this.#bus = new NodeBus({ ...options, wakes: this.wakes });
    this.live = new LiveOutputRelay({ ...shared, bus: this.#bus });
    const parts = {
      ...shared,
      ...{ catalog: this.catalog, lists: this.lists, ownRuns: this.ownRuns },
      ...{ runners: this.runners, poolRunners: this.poolRunners },
      ...{ attachments: this.attachments, live: this.live, deviceLogins: this.deviceLogins },
      credits: new RunCredits(shared),
      checkpoints: new Checkpoints(database, heldRuns, this.#quotas, metrics),
      models: this.models,
    };
    this.spawns = new Spawns(parts);
    this.operations = operationsOf(parts);
    this.schedules = new Schedules({ ...parts, spawns: this.spawns, queue: this.operations.queue });
  }

  #batches(): Transact {
    return transact({
      store: postgresAgentStore(this.#database),
      perform: (effects) => this.wakes.perform(effects),
      ...batchNotes(this.metrics, this.#log),
    });
  }

  async start(): Promise<void> {
    await this.#bus.listen();
    this.timers.start();
    this.#maintenance.start();
    this.#measure();
    this.#hasStarted = true;
  }

  /** Why requests can't be served yet, or null: the migrations, the first key and the timers come first. */
  async unready(): Promise<string | null> {
    if (!this.#hasStarted) return 'the service is starting';
    return readReadiness(this.#database).then(
      ([row]) => (row?.is_read_only ? 'the database is read-only' : null),
      () => 'the database does not answer',
    );
  }

  #measure(): void {
    const counts = new RowCounts(this.#database, this.metrics, this.#log);
    this.metrics.onRead(() => counts.refresh());
    this.metrics.onRead(async () => {
      const { totalCount, idleCount, waitingCount } = this.#database;
      this.metrics.set('muster_database_connections', [
        [{ state: 'busy' }, totalCount - idleCount],
        [{ state: 'idle' }, idleCount],
        [{ state: 'waiting' }, waitingCount],
      ]);
    });
  }

  async close(): Promise<void> {
    this.timers.close();
    this.live.close();
    await this.#maintenance.close();
    await this.transact.idle();
    await this.#quotas.flush();
    await this.#bus.close();
  }
}

const batchNotes = (metrics: Metrics, log: Log) =>
  ({
    onBatch: (size) => metrics.observe('muster_batch_commands', {}, size),
    onCommit: (changes) => noteRuns(changes, metrics, log),
    onTransaction: (outcome, seconds) => metrics.observe('muster_transaction_seconds', { outcome }, seconds),
  }) satisfies Partial<TransactOptions>;

const maintenanceNotes = (metrics: Metrics) =>
  ({
    onMaintenance: (task, seconds) => {
      metrics.observe('muster_maintenance_seconds', { task }, seconds);
      metrics.put('muster_maintenance_last_success_timestamp_seconds', { task }, Date.now() / 1_000);
    },
    onQuotaUse: (uses) => {
      metrics.set(
        'muster_quota_largest_use_ratio',
        uses.map(({ quota, largestRatio }) => [{ quota }, largestRatio]),
      );
      metrics.set(
        'muster_quota_nearly_full_tenants',
        uses.map(({ quota, nearlyFull }) => [{ quota }, nearlyFull]),
      );
    },
  }) satisfies Partial<MaintenanceOptions>;
