import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { serveGit } from '../codehost/git-server.ts';

/** Repositories over HTTP with an LFS server, which names a second server as the place of its objects. */
export interface LfsServer {
  readonly url: string;
  /** Host and port of the second server. */
  readonly storeHost: string;
  /** What it names as the place of every object instead. */
  named: { readonly href: string; readonly header: Readonly<Record<string, string>> } | undefined;
  /** What it answers to the next batch requests instead. */
  readonly answers: string[];
  /** The headers of requests for `/object` of the first server. */
  readonly seen: IncomingHttpHeaders[];
  /** The contents by their digest. */
  readonly objects: Map<string, Buffer>;
  /** Stores an object and returns its pointer. */
  add(content: string): string;
  close(): void;
}

export interface LfsServerOptions {
  readonly root: string;
  readonly username: string;
  readonly password: string;
  /** The header that the second server requires. */
  readonly objectToken: string;
}

export async function startLfsServer(options: LfsServerOptions): Promise<LfsServer> {
  const objects = new Map<string, Buffer>();
  const { root, username, password, objectToken } = options;
  const basic = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  const store = await listen(async (request, response) => {
    const oid = request.url?.slice(1) ?? '';
    if (request.headers.authorization !== objectToken) return void response.writeHead(403).end('no\n');
    if (request.method === 'PUT') {
      const content = await bodyOf(request);
      if (digestOf(content) !== oid) return void response.writeHead(422).end();
      objects.set(oid, content);
      return void response.end();
    }
    const content = objects.get(oid);
    if (content) response.end(content);
    else response.writeHead(404).end();
  });
  const seen: IncomingHttpHeaders[] = [];
  const server = await listen(async (request, response) => {
    if (request.url === '/object') {
      seen.push(request.headers);
      return void response.end('from the same origin\n');
    }
    if (!request.url?.endsWith('/info/lfs/objects/batch'))
      return serveGit(request, response, {
        root,
        accessOf: (_, user, secret) => (user === username && secret === password ? 'write' : 'none'),
      });
    if (request.headers.authorization !== basic)
      return void response.writeHead(401, { 'www-authenticate': 'Basic' }).end();
    const instead = lfs.answers.shift();
    if (instead !== undefined) return void response.end(instead);
    const asked = JSON.parse((await bodyOf(request)).toString()) as Batch;
    const action = (oid: string) =>
      lfs.named ?? { href: `${store.url}/${oid}`, header: { authorization: objectToken } };
    const answer = asked.objects.map(({ oid, size }) => {
      const isKnown = objects.has(oid);
      if (asked.operation === 'upload')
        return { oid, size, ...(!isKnown && { actions: { upload: action(oid) } }) };
      return isKnown
        ? { oid, size, actions: { download: action(oid) } }
        : { oid, size, error: { code: 404, message: 'not found' } };
    });
    response
      .writeHead(200, { 'content-type': 'application/vnd.git-lfs+json' })
      .end(JSON.stringify({ transfer: 'basic', objects: answer }));
  });
  const lfs: LfsServer = {
    url: server.url,
    storeHost: new URL(store.url).host,
    named: undefined,
    answers: [],
    seen,
    objects,
    add: (content) => {
      const oid = digestOf(Buffer.from(content));
      objects.set(oid, Buffer.from(content));
      return pointerOf(oid, Buffer.byteLength(content));
    },
    close: () => {
      for (const one of [server, store]) one.server.close();
    },
  };
  return lfs;
}

interface Batch {
  readonly operation: string;
  readonly objects: readonly { readonly oid: string; readonly size: number }[];
}

const digestOf = (content: Buffer): string => createHash('sha256').update(content).digest('hex');

const pointerOf = (oid: string, size: number): string =>
  `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${size}\n`;

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

async function listen(
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Promise<{ server: Server; url: string }> {
  const server = createServer((request, response) => void handle(request, response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}
