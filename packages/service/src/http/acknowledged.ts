import { readFile } from 'node:fs/promises';
import { isIPv4, type Socket } from 'node:net';
import { endianness } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';

interface Question {
  readonly socket: Socket;
  readonly answer: (bytes: number | null) => void;
}

/**
 * How many of the bytes written to a connection its client has acknowledged.
 *
 * Node can't tell: for it a write is done once the kernel has the bytes, and the kernel repeats them to a client that
 * has vanished for a quarter of an hour. TCP keep-alive does not help, because no probe is sent while bytes wait for
 * their acknowledgement. Linux lists these bytes for each connection in /proc/net/tcp and tcp6. On other systems the
 * answer is null, and a vanished client is noticed when the kernel gives up.
 */
export class Acknowledged {
  readonly #readEveryMs: number;
  #questions: Question[] = [];
  #isReading = false;

  /** The tables are read no more often than this, however many connections are asked about. */
  constructor(readEveryMs: number) {
    this.#readEveryMs = readEveryMs;
  }

  /** Null: unknown, for example because Node still holds a part of what was written. */
  bytesOf(socket: Socket): Promise<number | null> {
    return new Promise((answer) => {
      this.#questions.push({ socket, answer });
      if (!this.#isReading) void this.#read();
    });
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    while (this.#questions.length > 0) {
      const questions = this.#questions;
      this.#questions = [];
      // Node keeps what is written meanwhile, so that both figures are of the same moment.
      const given = questions.map(({ socket }) => givenToKernel(socket));
      for (const { socket } of questions) socket.cork();
      const waiting = await unacknowledged();
      for (const [i, { socket, answer }] of questions.entries()) {
        socket.uncork();
        const row = waiting?.get(rowOf(socket));
        const bytes = given[i] ?? null;
        answer(row === undefined || bytes === null ? null : bytes - row);
      }
      await pause(this.#readEveryMs, undefined, { ref: false });
    }
    this.#isReading = false;
  }
}

const givenToKernel = ({ writableLength, bytesWritten }: Socket): number | null =>
  writableLength === 0 ? bytesWritten : null;

/** Both ends of a connection, as the tables write them → the bytes that wait for an acknowledgement. */
async function unacknowledged(): Promise<Map<string, number> | null> {
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

/** An address is written as words of 32 bits, each in the byte order of the machine. */
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
