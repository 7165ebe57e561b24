import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  type ClientRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as requestHttp,
  type ServerResponse,
} from 'node:http';
import { request as requestHttps } from 'node:https';
import { isIP } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { limits } from '@muster/sdk/contract';
import { messageOf } from '../../lib/errors.ts';
import { canonicalHost, isPrivateAddress } from '../../lib/host-rules.ts';
import { exceededBound, isObject, type JsonBounds } from '../../lib/json.ts';
import { refuseSmallParts } from '../../lib/small-parts.ts';
import { ValueMask } from '../../lib/value-mask.ts';
import type { PreparedRepository } from '../workspace/prepare.ts';
import type { HttpAccess } from '../workspace/remote-access.ts';
import { Lookups } from './lookups.ts';
import { framingHeaders } from './upstream.ts';

/**
 * The LFS server of a repository, for one run. The batch request goes to the real server with the runner's credential.
 * Its answer says where each object is and with which headers: these stay here, and the agent gets URLs of the gateway
 * instead. The server is not trusted. It could name an address of an internal network, and the agent would read what is
 * there: so objects come from the server itself, from public addresses, and from those that the operator lists.
 */
export class LfsEndpoint {
  /** What the server's answers allow, oldest first. */
  readonly #actions = new Map<string, Action>();
  readonly #lookups = new Lookups();

  /** The batch request of git-lfs. */
  async batch(
    repository: PreparedRepository,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const body = parse(await readBytes(request, limits.lfsBatchBytes, 'the request'));
    if (typeof body === 'string') throw new LfsError(422, `the request is ${body}`);
    const { operation } = body;
    if (operation !== 'download' && operation !== 'upload')
      throw new LfsError(422, 'operation must be "download" or "upload"');
    if (operation === 'upload' && repository.readOnly) throw new LfsError(403, repository.readOnly);
    const access = await repository.mirror.httpAccess(repository.askCredential);
    const { hash_algo, objects, ref } = body;
    const sent = JSON.stringify({ operation, transfers: ['basic'], hash_algo, objects, ref });
    const place = { access, lookups: this.#lookups, client: response, isPublic: false };
    const { answer, mask, isPublic } = await sendBatch(place, sent);
    const gateway = `http://${request.headers.host}${request.url?.replace(/[/.]*(git)?\/info\/lfs\/.*$/, '')}`;
    const objectsIn = Array.isArray(answer.objects) ? answer.objects.slice(0, limits.lfsBatchObjects) : [];
    const rewritten = objectsIn.filter(isObject).map((object) => ({
      ...{ oid: object.oid, size: object.size, authenticated: true },
      ...(isObject(object.error) && { error: mask.value(object.error) }),
      ...(isObject(object.actions) && { actions: this.#keep(object.actions, { access, isPublic }, gateway) }),
    }));
    response
      .writeHead(200, { 'content-type': batchType })
      .end(JSON.stringify({ transfer: 'basic', objects: rewritten, hash_algo: answer.hash_algo }));
  }

  /** A request for an object, by the URL that the agent got. */
  async transfer(id: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const action = this.#actions.get(id);
    if (!action) throw new LfsError(404, 'this URL of an LFS object is not known; ask for it again');
    if (request.method !== action.method) throw new LfsError(405, `use ${action.method}`);
    const type = request.headers['content-type'];
    const headers = { ...(type && { 'content-type': type }), ...framingHeaders(request), ...action.headers };
    const place = { ...action.server, lookups: this.#lookups, client: response };
    const outgoing = await connect(place, action.url, action.method, headers);
    response.once('close', () => outgoing.destroy());
    request.pipe(outgoing);
    const [answer] = (await once(outgoing, 'response').catch((error: unknown) => {
      throw new LfsError(502, `the place of the object can't be reached: ${messageOf(error)}`);
    })) as [IncomingMessage];
    const status = answer.statusCode ?? 0;
    // A redirect has a signed URL, and a refusal may repeat what was sent.
    if (status < 200 || status >= 300) {
      answer.destroy();
      throw new LfsError(status >= 400 ? status : 502, `the place of the object answered ${status}`);
    }
    const length = answer.headers['content-length'];
    response.writeHead(200, { ...(length && { 'content-length': length }) });
    await pipeline(answer, response);
  }

  #keep(actions: Readonly<Record<string, unknown>>, server: Server, gateway: string) {
    const kept = Object.entries(methods).flatMap(([name, method]) => {
      const given = actions[name];
      if (!isObject(given) || typeof given.href !== 'string') return [];
      if (given.href.length > mostHrefLength || !URL.canParse(given.href)) return [];
      const id = randomBytes(16).toString('hex');
      const [oldest] = this.#actions.keys();
      if (this.#actions.size >= limits.lfsBatchObjects * 4 && oldest) this.#actions.delete(oldest);
      this.#actions.set(id, { server, method, url: new URL(given.href), headers: headersOf(given.header) });
      return [[name, { href: `${gateway}/lfs/${id}` }]];
    });
    return Object.fromEntries(kept);
  }
}

interface Server {
  readonly access: HttpAccess;
  /** It answered the batch request from a public address. */
  readonly isPublic: boolean;
}

interface Action {
  readonly server: Server;
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

/** The server or the object store of a request of the agent. */
interface Place extends Server {
  readonly lookups: Lookups;
  readonly client: ServerResponse;
}

const methods = { download: 'GET', upload: 'PUT', verify: 'POST' } as const;

/** An error that git-lfs prints. */
export class LfsError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export function answerError(response: ServerResponse, status: number, message: string): void {
  const body = JSON.stringify({ message: `muster: ${message}` });
  response.writeHead(status, { 'content-type': batchType }).end(body);
}

const basicOf = ({ username, password }: NonNullable<HttpAccess['credential']>): string =>
  Buffer.from(`${username}:${password}`).toString('base64');

const mostHrefLength = 8 * 1024;
const mostHeaders = 50;
/** Of all headers of an action. */
const mostHeadersLength = 16 * 1024;
const mostAnswerBytes = 4 * 1024 * 1024;
/** Of a request and of an answer: the objects of a batch have some thirty values each. */
const jsonBounds: JsonBounds = { depth: 16, values: 50_000 };
const idleMs = 5 * 60_000;
const batchType = 'application/vnd.git-lfs+json';

/** Headers about the connection or the body, which the gateway sets itself, and those that proxies add. */
const ownHeaders =
  /^(host|connection|keep-alive|content-length|transfer-encoding|expect|te|trailer|upgrade|forwarded|via|cookie)$|^(x-forwarded-|proxy-)/i;

/** The metadata services of clouds refuse requests without these headers. */
const metadataHeaders = /metadata/i;

function headersOf(given: unknown): Record<string, string> {
  if (!isObject(given)) return {};
  let length = 0;
  const isAllowed = ([name, value]: [string, unknown]): boolean => {
    if (typeof value !== 'string' || !/^[\w-]+$/.test(name) || !/^[\x20-\x7e]*$/.test(value)) return false;
    if (ownHeaders.test(name) || metadataHeaders.test(name)) return false;
    length += name.length + value.length;
    return length <= mostHeadersLength;
  };
  return Object.fromEntries(
    Object.entries(given).slice(0, mostHeaders).filter(isAllowed) as [string, string][],
  );
}

/** First without the credentials of the runner's user, as git does. */
async function sendBatch(
  place: Place,
  body: string,
): Promise<{ answer: Record<string, unknown>; mask: ValueMask; isPublic: boolean }> {
  const { access } = place;
  const first = await post(place, body, access.credential);
  const isRefused = first.status === 401 && !access.credential;
  const used = isRefused ? await access.ownCredential() : access.credential;
  const { status, bytes, isPublic } = isRefused && used ? await post(place, body, used) : first;
  // A server could send back what it received.
  const mask = new ValueMask(used ? [used.password, basicOf(used)] : []);
  const answer = parse(bytes);
  if (status === 200 && typeof answer !== 'string') return { answer, mask, isPublic };
  const text = typeof answer === 'string' ? answer : answer.message;
  const said = typeof text === 'string' ? `: ${text.slice(0, 300)}` : '';
  const message = mask.text(`the LFS server of ${access.url} answered ${status}${said}`);
  throw new LfsError(status === 404 || status === 422 ? status : 403, message);
}

async function post(place: Place, body: string, credential: HttpAccess['credential']) {
  const base = place.access.url.replace(/\/+$/, '');
  const url = new URL(`${base}${base.endsWith('.git') ? '' : '.git'}/info/lfs/objects/batch`);
  const outgoing = await connect(place, url, 'POST', {
    accept: batchType,
    'content-type': batchType,
    'content-length': `${Buffer.byteLength(body)}`,
    ...(credential && { authorization: `Basic ${basicOf(credential)}` }),
  });
  return new Promise<{ status: number; bytes: Buffer; isPublic: boolean }>((resolve, reject) => {
    outgoing.on('error', (error) =>
      reject(new LfsError(502, `${url.host} can't be reached: ${messageOf(error)}`)),
    );
    outgoing.once('response', (answer) => {
      const { remoteAddress } = answer.socket;
      const isPublic = remoteAddress === undefined || !isPrivateAddress(remoteAddress);
      readBytes(answer, mostAnswerBytes, `the answer of ${url.host}`).then(
        (bytes) => resolve({ status: answer.statusCode ?? 0, bytes, isPublic }),
        reject,
      );
    });
    outgoing.end(body);
  });
}

/** The name is resolved once, and only to addresses that the tenant may reach. */
async function connect(
  { access, lookups, client, isPublic }: Place,
  url: URL,
  method: string,
  headers: OutgoingHttpHeaders,
): Promise<ClientRequest> {
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw new LfsError(502, `the LFS server named a URL that is not HTTP: ${url.protocol}//${url.host}`);
  const isAllowed = await access.addressesFor(url, { isPublic });
  const host = canonicalHost(url.hostname);
  const refused = (address: string) =>
    new LfsError(
      403,
      `${url.host} is ${address}, an address of an internal network; LFS objects are not fetched from it`,
    );
  if (isIP(host) && !isAllowed(host)) throw refused(host);
  const checked = lookups.forConnection(client, (_name, found) => {
    const wrong = found.find(({ address }) => !isAllowed(address));
    if (wrong) throw refused(wrong.address);
    return [...found];
  });
  const send = url.protocol === 'https:' ? requestHttps : requestHttp;
  const outgoing = send(url, { method, headers, lookup: checked, agent: false });
  outgoing.on('response', refuseSmallParts);
  // An error after the answer has begun would otherwise end the runner.
  outgoing.on('error', () => {});
  outgoing.setTimeout(idleMs, () => outgoing.destroy(new Error('it took too long')));
  return outgoing;
}

async function readBytes(stream: AsyncIterable<Buffer>, mostBytes: number, what: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > mostBytes) throw new LfsError(413, `${what} has more than ${mostBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** The object, or what the text is instead. */
function parse(bytes: Buffer): Record<string, unknown> | string {
  const exceeded = exceededBound(bytes, jsonBounds);
  if (exceeded) return `JSON with more ${exceeded} than ${jsonBounds[exceeded]}`;
  try {
    const value: unknown = JSON.parse(bytes.toString());
    if (isObject(value)) return value;
  } catch {}
  return 'not a JSON object';
}
