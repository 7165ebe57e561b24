import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Server, type Socket } from 'node:net';

/**
 * What a wire does:
 *
 *   through    carries everything
 *   cut        breaks every connection, and every new one
 *   half-open  keeps connections and takes new ones, but nothing comes through any more, ever
 *   slow       carries everything late, in small pieces
 *   one-way    carries requests and loses the replies
 *   unread     keeps connections and takes new ones, but reads from neither side any more
 */
export type Wire = 'through' | 'cut' | 'half-open' | 'slow' | 'one-way' | 'unread';

type Address = { readonly path: string } | { readonly port: number };

const pieceBytes = 512;
const pieceDelayMs = 5;

/** A TCP or unix socket proxy of our own, with faults at command. A connection that went half-open stays so. */
export class WireProxy {
  readonly #server: Server;
  readonly #target: Address;
  readonly #pairs = new Set<Pair>();
  readonly #watchers = new Set<() => void>();
  #wire: Wire = 'through';
  /** Connections cut, pieces held back or swallowed since the wire was last set. */
  #touched = 0;

  constructor(target: Address) {
    this.#target = target;
    this.#server = createServer({ allowHalfOpen: false }, (near) => this.#accept(near));
  }

  /** Listens on a unix socket path, or on a free port of the loopback. */
  static async listen(target: Address, path?: string): Promise<WireProxy> {
    const proxy = new WireProxy(target);
    proxy.#server.listen(path === undefined ? { host: '127.0.0.1', port: 0 } : { path });
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get wire(): Wire {
    return this.#wire;
  }

  /** From now on. What is connected is cut or goes silent with the wire; a silent connection never speaks again. */
  set(wire: Wire): void {
    this.#wire = wire;
    this.#touched = 0;
    for (const pair of [...this.#pairs]) this.#apply(pair);
  }

  /** Resolves when the fault has hit something so often, or after the time if nobody uses the wire. */
  async touched(count: number, withinMs: number): Promise<number> {
    await new Promise<void>((resolve) => {
      const finish = () => {
        clearTimeout(timer);
        this.#watchers.delete(look);
        resolve();
      };
      const look = () => this.#touched >= count && finish();
      const timer = setTimeout(finish, withinMs);
      this.#watchers.add(look);
      look();
    });
    return this.#touched;
  }

  async close(): Promise<void> {
    for (const pair of [...this.#pairs]) pair.destroy();
    this.#server.close();
    if (this.#server.listening) await once(this.#server, 'close');
  }

  #touch(): void {
    this.#touched += 1;
    for (const look of [...this.#watchers]) look();
  }

  #apply(pair: Pair): void {
    if (this.#wire === 'cut') {
      this.#touch();
      pair.destroy();
    }
    if (this.#wire === 'half-open') pair.isSilent = true;
    if (this.#wire === 'unread') pair.pause();
  }

  #accept(near: Socket): void {
    const pair = new Pair(near, dial(this.#target), () => this.#pairs.delete(pair));
    this.#pairs.add(pair);
    this.#apply(pair);
    this.#carry(pair, pair.near, pair.far, false);
    this.#carry(pair, pair.far, pair.near, true);
  }

  #carry(pair: Pair, from: Socket, to: Socket, isReply: boolean): void {
    let last = Promise.resolve();
    from.on('data', (data) => {
      if (pair.isSilent || (isReply && this.#wire === 'one-way')) return this.#touch();
      // Pieces that are on their way late must not be overtaken by those that are not.
      if (this.#wire === 'slow') last = last.then(() => this.#late(pair, data, to));
      else last = last.then(() => void (pair.isSilent || to.write(data)));
    });
  }

  async #late(pair: Pair, data: Buffer, to: Socket): Promise<void> {
    for (let from = 0; from < data.length; from += pieceBytes) {
      await new Promise((resolve) => setTimeout(resolve, pieceDelayMs));
      this.#touch();
      if (pair.isSilent || to.destroyed) return;
      to.write(data.subarray(from, from + pieceBytes));
    }
  }
}

/** The two halves of one connection: one end closed closes the other, unless nothing comes through any more. */
class Pair {
  readonly near: Socket;
  readonly far: Socket;
  isSilent = false;
  readonly #onClosed: () => void;

  constructor(near: Socket, far: Socket, onClosed: () => void) {
    this.near = near;
    this.far = far;
    this.#onClosed = onClosed;
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.on('error', () => {});
      one.on('close', () => {
        if (near.destroyed && far.destroyed) this.#onClosed();
        else if (!this.isSilent) other.destroy();
      });
    }
  }

  destroy(): void {
    this.near.destroy();
    this.far.destroy();
  }

  pause(): void {
    this.near.pause();
    this.far.pause();
  }
}
