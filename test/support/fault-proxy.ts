import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Server, type Socket } from 'node:net';

/**
 * What the proxy does with connections:
 *
 *   through    forwards everything
 *   cut        closes every connection, and every new one
 *   half-open  keeps connections open and accepts new ones, but never forwards anything on them again
 *   slow       forwards everything late, in small pieces
 *   one-way    forwards requests and drops the replies
 *   unread     keeps connections open and accepts new ones, but reads from neither side
 */
export type ProxyMode = 'through' | 'cut' | 'half-open' | 'slow' | 'one-way' | 'unread';

type Address = { readonly path: string } | { readonly port: number };

const pieceBytes = 512;
const pieceDelayMs = 5;

/** A TCP or unix socket proxy that causes network faults. A connection that went half-open stays half-open. */
export class FaultProxy {
  readonly #server: Server;
  readonly #target: Address;
  readonly #pairs = new Set<ConnectionPair>();
  readonly #watchers = new Set<() => void>();
  #mode: ProxyMode = 'through';
  /** Connections cut, and pieces delayed or dropped, since the mode was last set. */
  #faults = 0;

  constructor(target: Address) {
    this.#target = target;
    this.#server = createServer({ allowHalfOpen: false }, (near) => this.#accept(near));
  }

  /** Listens on a unix socket path, or on a free port of the loopback. */
  static async listen(target: Address, path?: string): Promise<FaultProxy> {
    const proxy = new FaultProxy(target);
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

  get mode(): ProxyMode {
    return this.#mode;
  }

  /** Applies to open connections too. */
  set(mode: ProxyMode): void {
    this.#mode = mode;
    this.#faults = 0;
    for (const pair of [...this.#pairs]) this.#apply(pair);
  }

  /** Resolves when the fault has occurred so often, or after the time if nothing uses the proxy. Returns the count. */
  async faults(count: number, withinMs: number): Promise<number> {
    await new Promise<void>((resolve) => {
      const finish = () => {
        clearTimeout(timer);
        this.#watchers.delete(look);
        resolve();
      };
      const look = () => this.#faults >= count && finish();
      const timer = setTimeout(finish, withinMs);
      this.#watchers.add(look);
      look();
    });
    return this.#faults;
  }

  async close(): Promise<void> {
    for (const pair of [...this.#pairs]) pair.destroy();
    this.#server.close();
    if (this.#server.listening) await once(this.#server, 'close');
  }

  #countFault(): void {
    this.#faults += 1;
    for (const look of [...this.#watchers]) look();
  }

  #apply(pair: ConnectionPair): void {
    if (this.#mode === 'cut') {
      this.#countFault();
      pair.destroy();
    }
    if (this.#mode === 'half-open') pair.isSilent = true;
    if (this.#mode === 'unread') pair.pause();
  }

  #accept(near: Socket): void {
    const pair = new ConnectionPair(near, dial(this.#target), () => this.#pairs.delete(pair));
    this.#pairs.add(pair);
    this.#apply(pair);
    this.#forward(pair, pair.near, pair.far, false);
    this.#forward(pair, pair.far, pair.near, true);
  }

  #forward(pair: ConnectionPair, from: Socket, to: Socket, isReply: boolean): void {
    let last = Promise.resolve();
    from.on('data', (data) => {
      if (pair.isSilent || (isReply && this.#mode === 'one-way')) return this.#countFault();
      // Pieces that are forwarded immediately must not overtake delayed ones.
      if (this.#mode === 'slow') last = last.then(() => this.#forwardSlowly(pair, data, to));
      else last = last.then(() => void (pair.isSilent || to.write(data)));
    });
  }

  async #forwardSlowly(pair: ConnectionPair, data: Buffer, to: Socket): Promise<void> {
    for (let from = 0; from < data.length; from += pieceBytes) {
      await new Promise((resolve) => setTimeout(resolve, pieceDelayMs));
      this.#countFault();
      if (pair.isSilent || to.destroyed) return;
      to.write(data.subarray(from, from + pieceBytes));
    }
  }
}

/** The two sockets of one connection. When one closes, the other is closed too, unless the connection is silent. */
class ConnectionPair {
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
