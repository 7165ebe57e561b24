import cluster, { type Worker } from 'node:cluster';
import { messageOf } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { type MetricsJson, SummedMetrics } from '../lib/metrics.ts';
import { endOf, errorOfFailure, restartDelayMs } from '../lib/service-process.ts';
import { WakeSignal } from '../lib/wake-signal.ts';
import {
  type FromWorker,
  type MessageName,
  replyMs,
  type ToWorker,
  workerEnvironment,
} from '../lib/worker-channel.ts';
import type { RunningService } from './node.ts';

/** The place of one worker. When its process dies, another one takes the place. */
interface Place {
  readonly number: number;
  worker: Worker | null;
  state: 'starting' | 'ready' | 'drained' | 'gone';
  startedMs: number;
  restartDelayMs: number;
  /** What a worker that could not start has said. */
  failure: Error | null;
}

/**
 * Starts the workers of a service. Each is a node in its own process. This process
 * binds their port and passes it on, starts a worker again that dies, and passes messages between the workers. A worker
 * exits when the connection to this process closes, so killing this process leaves none behind.
 */
export async function startWorkers(count: number, port: number, log: Log): Promise<RunningService> {
  // The workers accept connections themselves. One that this process hands to a worker that was just killed would hang.
  cluster.schedulingPolicy = cluster.SCHED_NONE;
  const workers = new Workers(count, port, log);
  const address = await workers.start();
  return {
    address,
    unready: () => workers.unready(),
    shutdown: [
      ['waits', () => workers.drain()],
      ['workers', () => workers.close()],
    ],
  };
}

class Workers {
  readonly #log: Log;
  readonly #places: readonly Place[];
  readonly #changed = new WakeSignal();
  readonly #metrics = new SummedMetrics();
  /** By the id of a question: called with the replies of the workers. */
  readonly #asked = new Map<number, (place: Place, reply?: unknown) => void>();
  #lastId = 0;
  #phase: 'starting' | 'running' | 'closing' = 'starting';
  #address = '';
  #port: string;

  constructor(count: number, port: number, log: Log) {
    this.#log = log;
    this.#port = String(port);
    this.#places = Array.from({ length: count }, (_, i) => ({
      number: i + 1,
      worker: null,
      state: 'gone',
      startedMs: 0,
      restartDelayMs: 0,
      failure: null,
    }));
    cluster.on('message', (worker, message: FromWorker) => {
      const place = this.#places.find((each) => each.worker === worker);
      if (place) this.#receive(place, message);
    });
  }

  /** Resolves with the address when every worker is ready; fails when one of them can't start. */
  async start(): Promise<string> {
    for (const place of this.#places) this.#fork(place);
    await this.#until(() => this.#places.every(({ state }) => state === 'ready' || state === 'gone'));
    const failed = this.#places.find(({ state }) => state === 'gone');
    if (!failed) {
      this.#phase = 'running';
      return this.#address;
    }
    this.#phase = 'closing';
    for (const { worker } of this.#places) worker?.process.kill('SIGKILL');
    await this.#allGone();
    throw failed.failure ?? new Error(`worker ${failed.number} ended while it started`);
  }

  /** No worker says that it is ready, and none is started any more. */
  unready(): void {
    this.#phase = 'closing';
    for (const { worker, state } of this.#places) if (state === 'starting') worker?.process.kill('SIGKILL');
    for (const place of this.#ready()) this.#send(place, { type: 'unready' });
  }

  /** Waits and streams end at every worker. Requests are still served. */
  async drain(): Promise<void> {
    for (const place of this.#ready()) this.#send(place, { type: 'drain' });
    await this.#until(() => this.#ready().length === 0);
  }

  async close(): Promise<void> {
    for (const place of this.#places) this.#send(place, { type: 'close' });
    await this.#allGone();
  }

  #fork(place: Place): void {
    if (this.#phase === 'closing') return;
    // While a worker listens on a free port that the system chose, the others get the same one. Later it is known.
    if (this.#address && this.#places.every(({ state }) => state === 'gone'))
      this.#port = portOf(this.#address);
    place.state = 'starting';
    place.startedMs = performance.now();
    place.failure = null;
    try {
      const worker = cluster.fork({ ...workerEnvironment(place.number), MUSTER_PORT: this.#port });
      place.worker = worker;
      // `endOf` reports it. Without a listener it would end this process.
      worker.on('error', () => {});
      void endOf(worker.process).then((reason) => this.#ended(place, reason));
    } catch (error) {
      // The machine has no memory for another process.
      this.#ended(place, messageOf(error));
    }
  }

  #ended(place: Place, reason: string): void {
    const { number, failure } = place;
    place.state = 'gone';
    place.worker = null;
    this.#metrics.left(number);
    this.#tell(place, 'left');
    for (const answer of this.#asked.values()) answer(place);
    this.#changed.happened();
    if (this.#phase !== 'running') return;
    place.restartDelayMs = restartDelayMs(place.restartDelayMs, performance.now() - place.startedMs);
    const fields = { worker: number, reason: failure?.message ?? reason, restartMs: place.restartDelayMs };
    this.#log.error(fields, 'worker died; restarting');
    setTimeout(() => this.#fork(place), place.restartDelayMs);
  }

  #receive(place: Place, message: FromWorker): void {
    switch (message.type) {
      case 'ready':
        return this.#becomeReady(place, message.address);
      case 'failed':
        place.failure = errorOfFailure(message);
        return;
      case 'drained':
        place.state = 'drained';
        return this.#changed.happened();
      case 'reply':
        return this.#asked.get(message.id)?.(place, message.body);
      case 'metrics':
        return void this.#sumMetrics().then((text) => this.#reply(place, message.id, [text]));
      case 'ask':
        if (message.id === undefined) return this.#tell(place, message.name, message.body);
        return void this.#ask(place.number, message.name, message.body, this.#others(place)).then((replies) =>
          this.#reply(place, message.id ?? 0, [...replies.values()]),
        );
    }
  }

  #becomeReady(place: Place, address: string): void {
    this.#address ||= address;
    // The others ended just before this worker listened on a free port, and took theirs with them.
    if (address !== this.#address) {
      this.#port = portOf(this.#address);
      place.worker?.process.kill('SIGKILL');
      return;
    }
    place.state = 'ready';
    this.#tell(place, 'joined');
    this.#changed.happened();
  }

  /** Resolves with the replies by worker, without those that end meanwhile or take too long. */
  async #ask(
    from: number,
    name: MessageName,
    body: unknown,
    places: readonly Place[],
  ): Promise<ReadonlyMap<number, unknown>> {
    this.#lastId += 1;
    const id = this.#lastId;
    const replies = new Map<number, unknown>();
    const waiting = new Set(places);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, replyMs);
      this.#asked.set(id, (place, reply) => {
        if (waiting.delete(place) && reply !== undefined) replies.set(place.number, reply);
        if (waiting.size > 0) return;
        clearTimeout(timer);
        resolve();
      });
      for (const place of places) this.#send(place, { type: 'ask', id, from, name, body });
      if (places.length === 0) resolve();
    });
    this.#asked.delete(id);
    return replies;
  }

  async #sumMetrics(): Promise<string> {
    const replies = await this.#ask(0, 'metrics', null, this.#ready());
    return this.#metrics.sum(replies as ReadonlyMap<number, MetricsJson>);
  }

  #tell(from: Place, name: MessageName, body: unknown = null): void {
    for (const place of this.#others(from)) this.#send(place, { type: 'ask', from: from.number, name, body });
  }

  #reply(place: Place, id: number, bodies: readonly unknown[]): void {
    this.#send(place, { type: 'replies', id, bodies });
  }

  #send({ worker }: Place, message: ToWorker): void {
    if (worker?.isConnected()) worker.send(message, undefined, () => {});
  }

  #ready(): Place[] {
    return this.#places.filter(({ state }) => state === 'ready');
  }

  #others(place: Place): Place[] {
    return this.#ready().filter((other) => other !== place);
  }

  #allGone(): Promise<void> {
    return this.#until(() => this.#places.every(({ state }) => state === 'gone'));
  }

  async #until(condition: () => boolean): Promise<void> {
    while (!condition()) await this.#changed.within(Number.POSITIVE_INFINITY);
  }
}

const portOf = (address: string): string => new URL(address).port;
