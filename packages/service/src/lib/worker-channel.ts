import cluster from 'node:cluster';
import type { StartFailure } from './service-process.ts';

/** What the workers of a service tell each other. */
export interface WorkerMessages {
  /** Keys were written: what is cached about them is old. */
  keysChanged: null;
  /** The effects of a commit of this worker, whose node has this id. */
  committed: { readonly node: string; readonly effects: readonly unknown[] };
  /** A browser session has ended, with this id. */
  sessionEnded: string;
  /** The connection of a runner's newest poll was cut. */
  pollCut: { readonly runnerId: string; readonly poll: number };
  /** By key: how many requests this worker has let through since the last message. */
  requestsPassed: readonly (readonly [keyId: string, count: number])[];
  /** By key: the waits, streams and polls that are open at this worker, and how many agents they watch. */
  repliesOpen: readonly (readonly [keyId: string, replies: number, agents: number])[];
  /** The metrics of this worker, as JSON. */
  metrics: null;
  /** Sent by the supervisor: a worker is ready, or has ended. */
  joined: null;
  left: null;
}

export type MessageName = keyof WorkerMessages;

type Handler<N extends MessageName> = (body: WorkerMessages[N], from: number) => unknown;

/** The other workers of this service: the processes that share its port. */
export interface OtherWorkers {
  tell<N extends MessageName>(name: N, body: WorkerMessages[N]): void;
  /** Resolves with the replies of the others, without those that end meanwhile or take longer than `replyMs`. */
  ask<N extends MessageName>(name: N, body: WorkerMessages[N]): Promise<readonly unknown[]>;
  /** The metrics of all workers together, in the format of Prometheus. */
  metrics(): Promise<string>;
  on<N extends MessageName>(name: N, handler: Handler<N>): void;
}

/** How long the supervisor waits for the reply of a worker. */
export const replyMs = 2_000;

export type FromWorker =
  | { readonly type: 'ready'; readonly address: string }
  | StartFailure
  | { readonly type: 'drained' }
  /** Without an id: no reply is expected. */
  | { readonly type: 'ask'; readonly id?: number; readonly name: MessageName; readonly body: unknown }
  | { readonly type: 'metrics'; readonly id: number }
  | { readonly type: 'reply'; readonly id: number; readonly body: unknown };

export type ToWorker =
  | { readonly type: 'unready' | 'drain' | 'close' }
  | {
      readonly type: 'ask';
      readonly id?: number;
      readonly from: number;
      readonly name: MessageName;
      readonly body: unknown;
    }
  | { readonly type: 'replies'; readonly id: number; readonly bodies: readonly unknown[] };

const numberVariable = 'MUSTER_WORKER';

/** The variables of a worker, beside those of the service. */
export const workerEnvironment = (number: number): NodeJS.ProcessEnv => ({
  [numberVariable]: String(number),
});

/** From 1; null in a process that is not a worker of ours. */
export const workerNumber = (env: NodeJS.ProcessEnv): number | null =>
  cluster.isWorker && env[numberVariable] ? Number(env[numberVariable]) : null;

/** The worker's end of the connection to its supervisor, which passes messages on to the other workers. */
export class WorkerChannel implements OtherWorkers {
  readonly #handlers = new Map<string, (body: never, from: number) => unknown>();
  readonly #commands = new Map<string, () => Promise<void>>();
  readonly #asked = new Map<number, (bodies: readonly unknown[]) => void>();
  #lastId = 0;

  constructor() {
    process.on('message', (message: ToWorker) => {
      if (message.type === 'ask') void this.#answer(message);
      else if (message.type === 'replies') {
        this.#asked.get(message.id)?.(message.bodies);
        this.#asked.delete(message.id);
      } else void this.#commands.get(message.type)?.();
    });
  }

  /** What the supervisor tells a worker to do when the service shuts down. */
  onCommand(name: 'unready' | 'drain' | 'close', command: () => Promise<void>): void {
    this.#commands.set(name, command);
  }

  on<N extends MessageName>(name: N, handler: Handler<N>): void {
    this.#handlers.set(name, handler);
  }

  tell<N extends MessageName>(name: N, body: WorkerMessages[N]): void {
    void this.send({ type: 'ask', name, body });
  }

  ask<N extends MessageName>(name: N, body: WorkerMessages[N]): Promise<readonly unknown[]> {
    return this.#request((id) => ({ type: 'ask', id, name, body }));
  }

  async metrics(): Promise<string> {
    const [text] = await this.#request((id) => ({ type: 'metrics', id }));
    return String(text);
  }

  /** Resolves when the message has left this process. Without a supervisor this process is about to exit. */
  send(message: FromWorker): Promise<void> {
    return new Promise((resolve) => {
      if (process.connected) process.send?.(message, undefined, undefined, () => resolve());
      else resolve();
    });
  }

  #request(message: (id: number) => FromWorker): Promise<readonly unknown[]> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve) => {
      this.#asked.set(id, resolve);
      void this.send(message(id));
    });
  }

  async #answer({ id, from, name, body }: Extract<ToWorker, { type: 'ask' }>): Promise<void> {
    const reply = await this.#handlers.get(name)?.(body as never, from);
    if (id !== undefined) await this.send({ type: 'reply', id, body: reply ?? null });
  }
}
