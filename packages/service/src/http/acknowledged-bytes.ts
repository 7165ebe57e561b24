import { readFile } from 'node:fs/promises';
import { isIPv4, type Socket } from 'node:net';
import { endianness } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';

interface Query {
  readonly socket: Socket;
  readonly resolve: (bytes: number | null) => void;
}

/**
 * How many of the bytes written to a connection its client has acknowledged.
 *
 * Node does not know: a write succeeds once the kernel has the bytes, and the kernel resends them to a vanished client
 * for a quarter of an hour. TCP keep-alive does not help, because the kernel sends no probe while bytes are not
 * acknowledged. Linux lists these bytes for each connection in /proc/net/tcp and tcp6. On other systems the result is
 * null, and a vanished client is noticed when the kernel gives up.
 */
export class AcknowledgedBytes {
  readonly #readEveryMs: number;
  #queries: Query[] = [];
  #isReading = false;

  /** The tables are read at most this often, for any number of connections. */
  constructor(readEveryMs: number) {
    this.#readEveryMs = readEveryMs;
  }

  /** Null if unknown, for example because Node still buffers a part of what was written. */
  bytesOf(socket: Socket): Promise<number | null> {
    return new Promise((resolve) => {
      this.#queries.push({ socket, resolve });
      if (!this.#isReading) void this.#read();
    });
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    while (this.#queries.length > 0) {
      const queries = this.#queries;
      this.#queries = [];
      // Corked sockets buffer new writes, so that both numbers are of the same moment.
      const sent = queries.map(({ socket }) => sentToKernel(socket));
      for (const { socket } of queries) socket.cork();
      const unacknowledged = await readUnacknowledged();
      for (const [i, { socket, resolve }] of queries.entries()) {
        socket.uncork();
        const waiting = unacknowledged?.get(rowOf(socket));
        const bytes = sent[i] ?? null;
        resolve(waiting === undefined || bytes === null ? null : bytes - waiting);
      }
      await pause(this.#readEveryMs, undefined, { ref: false });
    }
    this.#isReading = false;
  }
}

const sentToKernel = ({ writableLength, bytesWritten }: Socket): number | null =>
  writableLength === 0 ? bytesWritten : null;

/** By both ends of a connection, as the tables write them: the bytes that are not acknowledged. */
async function readUnacknowledged(): Promise<Map<string, number> | null> {
  try {
    const tables = await Promise.all(
      ['/proc/net/tcp', '/proc/net/tcp6'].map((file) => readFile(file, 'latin1')),
    );
    return new Map(
      Array.from(tables.join('').matchAll(/^ *\d+: ([0-9A-F]+:\w+ [0-9A-F]+:\w+) \w+ (\w+):/gm), (row) => [
        row[1] ?? '',
        Number.parseInt(row[2] ?? '', 16),
      ]),
    );
  } catch {
    return null;
  }
}

const rowOf = ({ localAddress, localPort, remoteAddress, remotePort }: Socket): string =>
  `${endOf(localAddress, localPort)} ${endOf(remoteAddress, remotePort)}`;

/** The tables write an address as words of 32 bits, each in the byte order of the machine. */
function endOf(address = '', port = 0): string {
  const bytes = Buffer.from(isIPv4(address) ? address.split('.').map(Number) : bytesOfIPv6(address));
  if (endianness() === 'LE') bytes.swap32();
  const hex = `${bytes.toString('hex')}:${port.toString(16).padStart(4, '0')}`;
  return hex.toUpperCase();
}

function bytesOfIPv6(address: string): number[] {
  const groupsOf = (text: string): number[] => (text ? text.split(':').flatMap(bytesOfGroup) : []);
  const [before = '', after = ''] = (address.split('%')[0] ?? '').split('::');
  const [head, tail] = [groupsOf(before), groupsOf(after)];
  return [...head, ...Array<number>(Math.max(0, 16 - head.length - tail.length)).fill(0), ...tail];
}

/** The last group may be an IPv4 address. */
function bytesOfGroup(group: string): number[] {
  if (group.includes('.')) return group.split('.').map(Number);
  const value = Number.parseInt(group, 16);
  return [value >> 8, value & 255];
}
