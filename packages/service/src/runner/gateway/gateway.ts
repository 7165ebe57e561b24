import { timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Duplex, pipeline } from 'node:stream';
import type { ReportItem } from '@muster/sdk/contract';
import type { ProviderAccess, ProviderName, Usage } from '../../harness/harness.ts';
import { hashSecret } from '../../lib/token.ts';
import type { RunnerLog } from '../log.ts';
import { Capacity } from './capacity.ts';
import { Egress } from './egress.ts';
import type { Trouble } from './limit.ts';
import type { Prices } from './prices.ts';
import { type Provider, ProviderEndpoint } from './provider.ts';
import { refuse } from './provider-calls.ts';
import { Screener } from './screener.ts';
import { below, framing, onward, statusOf, Upstream } from './upstream.ts';

/**
 * The one way out for an agent's processes. Each run has a endpoint of its own, a small HTTP server that closes with it:
 *
 *   /anthropic/…, /openai/v1/…   the providers, with the runner's key instead of the run's token; metered
 *   /mcp                         the agent's tools, at the service
 *   /git/…                       the repositories of its workspace
 *   CONNECT, absolute URIs       hosts that its environment allows
 *
 * Whoever knocks shows the run's token, except at the last: there is nothing behind it that needs one.
 */
export interface GatewayOptions {
  readonly providers: Providers;
  readonly serviceUrl: string;
  readonly prices: Prices;
  /** How long a provider may send nothing. */
  readonly stallMs?: number;
  /** How long the limits of one request may be waited out inside the turn. */
  readonly limitWaitMs?: number;
  readonly limits?: Partial<GatewayLimits>;
  /** As the operator knows it. */
  readonly runnerName?: string;
  readonly log: RunnerLog;
}

export interface GatewayLimits {
  /** Bytes of requests to providers that all runs together may have in memory. */
  readonly requestBytes: number;
  /** How long a client may take to send a request to a provider; twice this, and it may send nothing elsewhere. */
  readonly receiveMs: number;
}

/** One of the largest requests for eight runs at a time; each comes from this machine. */
const defaultLimits: GatewayLimits = { requestBytes: 256 * 1024 * 1024, receiveMs: 60_000 };

export type { Trouble };

export type Providers = Readonly<Partial<Record<ProviderName, Provider>>>;

export interface EndpointOptions {
  /** The claim's. */
  readonly token: string;
  readonly listenAt: { readonly socketPath: string } | { readonly port: 0 };
  /** Undefined: there is no forward proxy at all, as when the sandbox is off. */
  readonly allowHosts: readonly string[] | undefined;
  /** The provider and models of the run's harness; undefined when it uses none, as in a rehearsal. */
  readonly provider?: ProviderAccess | undefined;
  readonly git?: (request: IncomingMessage, response: ServerResponse, path: string) => void;
  readonly listener: {
    usage(usage: Usage): void;
    item(item: ReportItem): void;
    action(currentAction: string): void;
  };
}

export interface OpenEndpoint {
  /** Undefined when it listens on a socket. */
  readonly port: number | undefined;
  /** The first that a provider made; it never rejects. */
  readonly trouble: Promise<Trouble>;
  /** Why the last answer of a provider failed on its side; undefined when it did not. */
  outage(): string | undefined;
  /** Cuts everything under way and tells what it used: the token dies with the run. */
  close(): Promise<void>;
}

/** A model may think for minutes before its first word. */
const defaultStallMs = 300_000;
const defaultLimitWaitMs = 60_000;
/**
 * What a run may have open at once. Its processes can knock without end, and whatever a endpoint holds open, every run of
 * this runner goes short of.
 */
const mostConnections = 128;
const mostRequests = 128;
/** Each is a process of git outside the sandbox. */
const mostGitRequests = 4;

export class Gateway {
  readonly #options: GatewayOptions;
  readonly #shared: Shared;

  constructor(options: GatewayOptions) {
    for (const [name, provider] of Object.entries(options.providers)) {
      if (!URL.canParse(provider.url))
        throw new Error(`The address of ${name} is not a URL: ${provider.url}`);
    }
    this.#options = options;
    const { requestBytes, receiveMs } = { ...defaultLimits, ...options.limits };
    this.#shared = {
      upstream: new Upstream(),
      memory: new Capacity(requestBytes),
      screener: new Screener(),
      receiveMs,
    };
  }

  async open(run: EndpointOptions): Promise<OpenEndpoint> {
    const endpoint = new RunEndpointServer(this.#options, this.#shared, run);
    await endpoint.listen();
    return endpoint;
  }
}

/** What the endpoints of a runner have in common. */
interface Shared {
  readonly upstream: Upstream;
  readonly memory: Capacity;
  readonly screener: Screener;
  readonly receiveMs: number;
}

class RunEndpointServer implements OpenEndpoint {
  readonly trouble: Promise<Trouble>;
  readonly #run: EndpointOptions;
  readonly #serviceUrl: string;
  readonly #upstream: Upstream;
  readonly #receiveMs: number;
  readonly #tokenHash: Buffer;
  readonly #provider: ProviderEndpoint | undefined;
  readonly #git = new Capacity(mostGitRequests);
  readonly #egress: Egress | undefined;
  readonly #server: Server;
  readonly #sockets = new Set<Duplex>();
  #requests = 0;

  constructor(options: GatewayOptions, shared: Shared, run: EndpointOptions) {
    this.#run = run;
    this.#serviceUrl = options.serviceUrl;
    this.#upstream = shared.upstream;
    this.#receiveMs = shared.receiveMs;
    this.#tokenHash = hashSecret(run.token);
    let tell: (trouble: Trouble) => void = () => {};
    this.trouble = new Promise((resolve) => {
      tell = resolve;
    });
    this.#provider =
      run.provider &&
      new ProviderEndpoint({
        ...shared,
        ...run.provider,
        provider: options.providers[run.provider.name],
        token: run.token,
        prices: options.prices,
        stallMs: options.stallMs ?? defaultStallMs,
        limitWaitMs: options.limitWaitMs ?? defaultLimitWaitMs,
        runnerName: options.runnerName,
        log: options.log,
        usage: (usage) => run.listener.usage(usage),
        item: (item) => run.listener.item(item),
        action: (currentAction) => run.listener.action(currentAction),
        trouble: tell,
      });
    this.#egress = run.allowHosts && new Egress(run.allowHosts, (item) => run.listener.item(item));
    // A push or a thought may take longer than any time-out; and a connection that is closed while idle is a request
    // that fails for nothing.
    const times = {
      headersTimeout: shared.receiveMs,
      connectionsCheckingInterval: shared.receiveMs / 2,
      requestTimeout: 0,
      keepAliveTimeout: 0,
    };
    this.#server = createServer(times, (request, response) => {
      try {
        this.#handle(request, response);
      } catch (error) {
        options.log.error({ err: error, path: request.url }, 'the gateway could not answer');
        response.destroy();
      }
    });
    this.#server.maxConnections = mostConnections;
    this.#server.on('connect', (request: IncomingMessage, socket: Duplex, head: Buffer) =>
      this.#connect(request, socket, head),
    );
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  get port(): number | undefined {
    const address = this.#server.address() as AddressInfo | string | null;
    return typeof address === 'object' ? address?.port : undefined;
  }

  outage(): string | undefined {
    return this.#provider?.outage;
  }

  async listen(): Promise<void> {
    const { listenAt } = this.#run;
    if ('socketPath' in listenAt) {
      await rm(listenAt.socketPath, { force: true });
      this.#server.listen(listenAt.socketPath);
    } else this.#server.listen(listenAt.port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async close(): Promise<void> {
    this.#provider?.close();
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #connect(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // The server has let go of it, and an error that nobody hears would be the runner's end.
    socket.on('error', () => socket.destroy());
    if (this.#egress) void this.#egress.connect(request, socket, head);
    else socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    response.on('error', () => {});
    if (this.#requests >= mostRequests)
      return say(response, 429, `This run has ${mostRequests} requests under way`, { 'retry-after': '1' });
    this.#requests += 1;
    const silence = this.#limitSilence(request, response);
    response.once('close', () => {
      this.#requests -= 1;
      clearInterval(silence);
    });
    const target = request.url ?? '/';
    if (!target.startsWith('/')) return this.#handleAbsolute(request, response, target);
    const at = target.indexOf('?');
    const path = at === -1 ? target : target.slice(0, at);
    const query = at === -1 ? '' : target.slice(at);
    const [, room = '', rest = ''] = /^\/(anthropic|openai\/v1|openai|mcp|git)((?:\/.*)?)$/.exec(path) ?? [];
    const provider = room === 'anthropic' ? 'anthropic' : room.startsWith('openai') ? 'openai' : undefined;
    if (!this.#hasToken(request)) {
      const message = "This needs the run's own token, and only while the run lasts";
      if (provider) return refuse(provider, response, 401, message);
      return say(
        response,
        401,
        message,
        room === 'git' ? { 'www-authenticate': 'Basic realm="muster"' } : {},
      );
    }
    if (provider) return this.#toProvider(provider, request, response, rest, query);
    if (room === 'mcp' && rest === '') return this.#toService(request, response, query);
    if (room === 'git' && this.#run.git) return void this.#toGit(request, response, target);
    say(response, 404, 'The gateway has nothing here; it has /anthropic, /openai/v1, /mcp and /git');
  }

  #handleAbsolute(request: IncomingMessage, response: ServerResponse, target: string): void {
    const uri = URL.canParse(target) ? new URL(target) : undefined;
    if (!uri) return say(response, 400, 'This is neither a path nor an absolute URI');
    if (!this.#egress) return say(response, 403, 'The gateway is no proxy for this run');
    void this.#egress.forward(request, response, uri);
  }

  /** A client that stops in the middle of its request is cut; not one whose bytes nobody has read yet. */
  #limitSilence(request: IncomingMessage, response: ServerResponse): NodeJS.Timeout {
    let bytes = request.socket.bytesRead;
    const timer = setInterval(() => {
      if (request.complete) return clearInterval(timer);
      const isSilent = request.socket.bytesRead === bytes && request.readableLength === 0;
      bytes = request.socket.bytesRead;
      if (isSilent) response.destroy();
    }, 2 * this.#receiveMs);
    return timer;
  }

  #toProvider(
    name: ProviderName,
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    query: string,
  ): void {
    const own = this.#run.provider?.name;
    if (this.#provider && own === name) return this.#provider.handle(request, response, path, query);
    const whose = own ? `its agent uses ${own}` : 'it is rehearsed, without a model';
    refuse(name, response, 404, `This run has no access to ${name}: ${whose}`);
  }

  async #toGit(request: IncomingMessage, response: ServerResponse, target: string): Promise<void> {
    const release = await this.#git.take(1, response);
    if (!release) return;
    response.once('close', release);
    this.#run.git?.(request, response, target);
  }

  #hasToken({ headers }: IncomingMessage): boolean {
    const [, scheme = '', credentials = ''] = /^(\w+) +(\S+)$/.exec(headers.authorization ?? '') ?? [];
    const shown = [headers['x-api-key'], scheme.toLowerCase() === 'bearer' ? credentials : undefined];
    if (scheme.toLowerCase() === 'basic') {
      const pair = Buffer.from(credentials, 'base64').toString();
      shown.push(pair.slice(pair.indexOf(':') + 1));
    }
    return shown.some(
      (text) => typeof text === 'string' && timingSafeEqual(hashSecret(text), this.#tokenHash),
    );
  }

  #toService(request: IncomingMessage, response: ServerResponse, query: string): void {
    const { token } = this.#run;
    const headers = {
      ...onward(request, (name) => name === 'x-api-key' || name === 'cookie'),
      ...framing(request),
      authorization: `Bearer ${token}`,
    };
    const outgoing = this.#upstream.request(
      below(this.#serviceUrl, '/mcp', query),
      request.method ?? 'POST',
      headers,
    );
    response.once('close', () => {
      if (!response.writableFinished) outgoing.destroy();
    });
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      request.unpipe().resume();
      if (response.headersSent) response.destroy();
      else say(response, 502, `The runner can't reach the service: ${error.code ?? error.message}`);
    });
    outgoing.once('response', (answer) => {
      response.writeHead(
        statusOf(answer),
        onward(answer, () => false),
      );
      response.flushHeaders();
      pipeline(answer, response, () => {});
    });
    request.pipe(outgoing);
  }
}

function say(
  response: ServerResponse,
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  const body = JSON.stringify({ error: { message } });
  response.writeHead(status, { ...headers, 'content-type': 'application/json' }).end(body);
}
