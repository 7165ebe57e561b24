import { createDecipheriv, createECDH, type ECDH, hkdfSync, randomBytes } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { until } from './async.ts';

/** Decrypts what a push service got, as a browser does. */
export function decryptPush(body: Buffer, browser: ECDH, auth: Buffer): Buffer {
  const salt = body.subarray(0, 16);
  const keyBytes = body.readUInt8(20);
  const sender = body.subarray(21, 21 + keyBytes);
  const derive = (key: Buffer, from: Buffer, info: Buffer, bytes: number) =>
    Buffer.from(hkdfSync('sha256', key, from, info, bytes));
  const about = Buffer.concat([Buffer.from('WebPush: info\0'), browser.getPublicKey(), sender]);
  const shared = derive(browser.computeSecret(sender), auth, about, 32);
  const key = derive(shared, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16);
  const nonce = derive(shared, salt, Buffer.from('Content-Encoding: nonce\0'), 12);
  const record = body.subarray(21 + keyBytes);
  const decipher = createDecipheriv('aes-128-gcm', key, nonce);
  decipher.setAuthTag(record.subarray(-16));
  const padded = Buffer.concat([decipher.update(record.subarray(0, -16)), decipher.final()]);
  const end = padded.findLastIndex((byte) => byte !== 0);
  if (padded[end] !== 2) throw new Error('the last record is not delimited');
  return padded.subarray(0, end);
}

/** What a push says, as the service worker reads it. */
export interface Push {
  readonly title: string;
  readonly body: string;
  readonly tag: string;
  readonly url: string;
  readonly withdrawn: boolean;
}

export interface ReceivedPush {
  readonly headers: IncomingHttpHeaders;
  readonly push: Push;
}

/** One browser of a test: its keys, and what was pushed to it. */
export class PushedBrowser {
  readonly #ecdh = createECDH('prime256v1');
  readonly #auth = randomBytes(16);
  readonly received: ReceivedPush[] = [];
  readonly subscription: { endpoint: string; p256dh: string; auth: string };
  /** Instead of 201. */
  answer: (response: ServerResponse) => void = (response) => response.writeHead(201).end();

  constructor(endpoint: string) {
    this.subscription = {
      endpoint,
      p256dh: this.#ecdh.generateKeys().toString('base64url'),
      auth: this.#auth.toString('base64url'),
    };
  }

  accept(headers: IncomingHttpHeaders, body: Buffer): void {
    const push = JSON.parse(decryptPush(body, this.#ecdh, this.#auth).toString()) as Push;
    this.received.push({ headers, push });
  }

  /** The titles so far, once there are this many. */
  titles(count: number): Promise<string[]> {
    return until(
      `${count} pushes`,
      async () => this.received.map(({ push }) => push.title),
      (titles) => titles.length >= count,
    );
  }
}

/** A push service on this machine. */
export async function startPushService() {
  const browsers = new Map<string, PushedBrowser>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const browser = browsers.get(request.url ?? '');
      if (!browser) return response.writeHead(404).end();
      browser.accept(request.headers, Buffer.concat(chunks));
      browser.answer(response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  let count = 0;
  return {
    host: `127.0.0.1:${port}`,
    browser(): PushedBrowser {
      count += 1;
      const browser = new PushedBrowser(`http://127.0.0.1:${port}/push/${count}`);
      browsers.set(`/push/${count}`, browser);
      return browser;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
