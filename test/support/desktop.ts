import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * A desktop for a browser without a screen: a D-Bus session bus, small enough for Chromium, with the service that shows
 * notifications (org.freedesktop.Notifications). A test sees what is shown, and clicks on it.
 */
export interface ShownNotification {
  readonly id: number;
  readonly title: string;
  readonly body: string;
}

const busName = 'org.freedesktop.DBus';
const serviceName = 'org.freedesktop.Notifications';
const serviceAddress = ':1.2';
const call = 1;
const reply = 2;
const failure = 3;
const signal = 4;

export class Desktop {
  readonly #folder = mkdtempSync(join(tmpdir(), 'desktop-'));
  readonly #connections = new Set<Connection>();
  readonly #server = createServer((socket) => {
    this.#connections.add(new Connection(socket, this));
  });
  shown: ShownNotification[] = [];
  #count = 0;

  static async start(): Promise<Desktop> {
    const desktop = new Desktop();
    await new Promise<void>((resolve) => desktop.#server.listen(desktop.#path, resolve));
    return desktop;
  }

  get #path(): string {
    return join(this.#folder, 'bus');
  }

  /** Of a browser that runs on this desktop. */
  get env(): Record<string, string> {
    return { DBUS_SESSION_BUS_ADDRESS: `unix:path=${this.#path}` };
  }

  click({ id }: ShownNotification): void {
    for (const connection of this.#connections) connection.clicked(id);
  }

  show(replaced: number, title: string, body: string): number {
    if (replaced === 0) this.#count += 1;
    const id = replaced || this.#count;
    this.remove(id);
    this.shown.push({ id, title, body });
    return id;
  }

  remove(id: number): void {
    this.shown = this.shown.filter((one) => one.id !== id);
  }

  async close(): Promise<void> {
    for (const connection of this.#connections) connection.end();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Strings and numbers as D-Bus writes them: little endian, each at a multiple of its size. */
class Writer {
  #bytes = Buffer.alloc(0);

  get bytes(): Buffer {
    return this.#bytes;
  }

  align(size: number): this {
    return this.raw(Buffer.alloc((size - (this.#bytes.length % size)) % size));
  }

  raw(bytes: Buffer): this {
    this.#bytes = Buffer.concat([this.#bytes, bytes]);
    return this;
  }

  number(value: number): this {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    return this.align(4).raw(bytes);
  }

  text(value: string): this {
    const bytes = Buffer.from(value);
    return this.number(bytes.length).raw(bytes).raw(Buffer.alloc(1));
  }

  signature(value: string): this {
    return this.raw(Buffer.from([value.length, ...Buffer.from(value), 0]));
  }

  texts(values: readonly string[]): this {
    const list = new Writer();
    for (const value of values) list.text(value);
    return this.number(list.bytes.length).raw(list.bytes);
  }
}

class Reader {
  readonly #bytes: Buffer;
  at: number;

  constructor(bytes: Buffer, at = 0) {
    this.#bytes = bytes;
    this.at = at;
  }

  align(size: number): this {
    this.at = Math.ceil(this.at / size) * size;
    return this;
  }

  byte(): number {
    this.at += 1;
    return this.#bytes.readUInt8(this.at - 1);
  }

  number(): number {
    this.align(4).at += 4;
    return this.#bytes.readUInt32LE(this.at - 4);
  }

  text(length = this.number()): string {
    this.at += length + 1;
    return this.#bytes.toString('utf8', this.at - length - 1, this.at - 1);
  }
}

type Field = readonly [code: number, type: 'o' | 's' | 'u' | 'g', value: string | number];

const fieldCodes = {
  path: 1,
  interface: 2,
  member: 3,
  error: 4,
  repliesTo: 5,
  sender: 7,
  signature: 8,
} as const;

/** One connection of the browser to the bus. */
class Connection {
  readonly #socket: Socket;
  readonly #desktop: Desktop;
  #received = Buffer.alloc(0);
  #hasBegun = false;
  #serial = 0;

  constructor(socket: Socket, desktop: Desktop) {
    this.#socket = socket;
    this.#desktop = desktop;
    socket.on('error', () => {});
    socket.on('data', (bytes: Buffer) => {
      this.#received = Buffer.concat([this.#received, bytes]);
      while (this.#hasBegun ? this.#takeMessage() : this.#takeLine());
    });
  }

  end(): void {
    this.#socket.destroy();
  }

  clicked(id: number): void {
    this.#send(
      signal,
      [
        [fieldCodes.path, 'o', '/org/freedesktop/Notifications'],
        [fieldCodes.interface, 's', serviceName],
        [fieldCodes.member, 's', 'ActionInvoked'],
        [fieldCodes.sender, 's', serviceAddress],
      ],
      'us',
      new Writer().number(id).text('default'),
    );
  }

  /** Anyone may connect. */
  #takeLine(): boolean {
    const end = this.#received.indexOf('\r\n');
    if (end < 0) return false;
    const line = this.#received.toString('latin1', 0, end).replace('\0', '');
    this.#received = this.#received.subarray(end + 2);
    if (line === 'BEGIN') this.#hasBegun = true;
    else if (line.startsWith('AUTH ')) this.#socket.write('OK 0123456789abcdef0123456789abcdef\r\n');
    else this.#socket.write('ERROR\r\n');
    return true;
  }

  #takeMessage(): boolean {
    const bytes = this.#received;
    if (bytes.length < 16) return false;
    const headerEnd = Math.ceil((16 + bytes.readUInt32LE(12)) / 8) * 8;
    const end = headerEnd + bytes.readUInt32LE(4);
    if (bytes.length < end) return false;
    this.#received = bytes.subarray(end);
    let member = '';
    const fields = new Reader(bytes, 16);
    while (fields.align(8).at < 16 + bytes.readUInt32LE(12)) {
      const code = fields.byte();
      const type = fields.text(fields.byte());
      const value =
        type === 'u' ? String(fields.number()) : type === 'g' ? fields.text(fields.byte()) : fields.text();
      if (code === fieldCodes.member) member = value;
    }
    if (bytes.readUInt8(1) === call)
      this.#answer(member, bytes.readUInt32LE(8), new Reader(bytes.subarray(headerEnd, end)));
    return true;
  }

  #answer(member: string, serial: number, body: Reader): void {
    const answer = (signature = '', content = new Writer(), sender = serviceAddress) =>
      this.#send(
        reply,
        [
          [fieldCodes.repliesTo, 'u', serial],
          [fieldCodes.sender, 's', sender],
        ],
        signature,
        content,
      );
    switch (member) {
      case 'Hello':
        return answer('s', new Writer().text(':1.1'), busName);
      case 'AddMatch':
      case 'RemoveMatch':
        return answer('', new Writer(), busName);
      case 'ListActivatableNames':
      case 'ListNames':
        return answer('as', new Writer().texts([busName, serviceName]), busName);
      case 'NameHasOwner':
        return answer('b', new Writer().number(body.text() === serviceName ? 1 : 0), busName);
      case 'GetNameOwner':
        if (body.text() !== serviceName) return this.#refuse(serial, 'NameHasNoOwner');
        return answer('s', new Writer().text(serviceAddress), busName);
      case 'GetCapabilities':
        return answer('as', new Writer().texts(['actions', 'body']));
      case 'GetServerInformation':
        return answer('ssss', new Writer().text('desktop').text('test').text('1').text('1.2'));
      case 'Notify': {
        body.text();
        const replaced = body.number();
        body.text();
        return answer('u', new Writer().number(this.#desktop.show(replaced, body.text(), body.text())));
      }
      case 'CloseNotification':
        this.#desktop.remove(body.number());
        return answer();
      default:
        return this.#refuse(serial, 'UnknownMethod');
    }
  }

  #refuse(serial: number, name: string): void {
    this.#send(failure, [
      [fieldCodes.error, 's', `${busName}.Error.${name}`],
      [fieldCodes.repliesTo, 'u', serial],
      [fieldCodes.sender, 's', busName],
    ]);
  }

  #send(type: number, fields: readonly Field[], signature = '', body = new Writer()): void {
    const all: readonly Field[] =
      signature === '' ? fields : [...fields, [fieldCodes.signature, 'g', signature]];
    const header = new Writer();
    for (const [code, kind, value] of all) {
      header
        .align(8)
        .raw(Buffer.from([code]))
        .signature(kind);
      if (kind === 'u') header.number(Number(value));
      else if (kind === 'g') header.signature(String(value));
      else header.text(String(value));
    }
    this.#serial += 1;
    const message = new Writer()
      .raw(Buffer.from(['l'.charCodeAt(0), type, 0, 1]))
      .number(body.bytes.length)
      .number(this.#serial)
      .number(header.bytes.length)
      .raw(header.bytes)
      .align(8)
      .raw(body.bytes);
    this.#socket.write(message.bytes);
  }
}
