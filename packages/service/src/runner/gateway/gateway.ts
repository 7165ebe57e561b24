import { timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ModelProvider } from '@muster/sdk/contract';
import type { Credit, ProviderAccess } from '../../harness/harness.ts';
import { refuseSmallParts } from '../../lib/small-parts.ts';
import { hashSecret } from '../../lib/token.ts';
import { type ProtocolName, providerFacts } from '../accounts/account.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { RunTrace } from '../run/run-trace.ts';
import type { ResolvedMcpServers } from '../workspace/mcp-servers.ts';
import { answer } from './answer.ts';
import { Capacity } from './capacity.ts';
import { Egress } from './egress.ts';
import { McpServers } from './mcp-servers.ts';
import { ProviderEndpoint } from './provider.ts';
import type { EndpointFailure, ProviderListener, SharedOptions } from './provider-options.ts';
import { providerProtocols, refuse } from './provider-protocols.ts';
import { RequestChecker } from './request-body.ts';
import { forwardToService, type ToolRequestOptions } from './tool-requests.ts';

/**
 * The only network access of an agent's processes. Each run has its own endpoint, an HTTP server that closes with it:
 *
 *   /anthropic/…, /openai/v1/…,
 *   /bedrock/…, /vertex/…        the providers, with the runner's credentials instead of the run's token; metered
 *   /mcp                         the agent's tools, at the service
 *   /mcp-servers/NAME            the remote MCP servers of its workspace, with their headers
 *   /git/…                       the repositories of its workspace
 *   CONNECT, absolute URIs       hosts that its environment allows
 *
 * Every request needs the run's token, except the last kind, which gives access to nothing secret.
 */
export interface GatewayOptions extends Pick<SharedOptions, 'prices' | 'runnerName' | 'log' | 'observed'> {
  readonly providers: Accounts;
  readonly serviceUrl: string;
  readonly limits?: Partial<GatewayLimits>;
}

export interface GatewayLimits extends Pick<SharedOptions, 'stallMs' | 'limitWaitMs' | 'receiveMs'> {
  /** Bytes of requests to providers that all runs together may have in memory. */
  readonly requestBytes: number;
}

const defaultLimits: GatewayLimits = {
  stallMs: 300_000,
  limitWaitMs: 60_000,
  // Eight requests of the largest size at a time.
  requestBytes: 256 * 1024 * 1024,
  receiveMs: 60_000,
};

export interface EndpointOptions extends Pick<ToolRequestOptions, 'token' | 'beforeTool' | 'mask'> {
  /** The trace of the run, where traces are sent. */
  readonly trace?: RunTrace | undefined;
  readonly listenAt: { readonly socketPath: string } | { readonly port: 0 };
  /** Undefined: there is no forward proxy, as when the sandbox is off. */
  readonly allowHosts: readonly string[] | undefined;
  /** The provider and models of the run's harness; undefined when it uses none, as in a rehearsal. */
  readonly provider?: ProviderAccess | undefined;
  readonly git?: (request: IncomingMessage, response: ServerResponse, path: string) => void;
  readonly mcpServers?: Pick<ResolvedMcpServers, 'remote' | 'headerValues'>;
  readonly usualAccount?: string | undefined;
  readonly isRetried?: boolean | undefined;
  /** What the run may spend. */
  readonly credit: Credit;
  readonly listener: ProviderListener;
}

const protocols = Object.keys(providerProtocols) as readonly ProtocolName[];
const served = '/anthropic, /bedrock, /vertex, /openai/v1, /mcp and /git';

/** What a run may have open at a time. All runs of the runner share its resources. */
const mostConnections = 128;
const mostRequests = 128;
/** Each is a git process outside the sandbox. */
const mostGitRequests = 4;

export class Gateway {
  readonly #shared: Shared;

  constructor(options: GatewayOptions) {
    const chosen = { ...defaultLimits, ...options.limits };
    this.#shared = {
      ...options,
      ...chosen,
      memory: new Capacity(chosen.requestBytes),
      checker: new RequestChecker(),
    };
  }

  async open(run: EndpointOptions): Promise<OpenEndpoint> {
    const endpoint = new OpenEndpoint(this.#shared, run);
    await endpoint.listen();
    return endpoint;
  }
}

type Shared = GatewayOptions & SharedOptions;

export class OpenEndpoint {
  /** The first failure of the provider, or refusal of a budget, that ends the run; never rejects. */
  readonly failure: Promise<EndpointFailure>;
  /** Resolves when the provider has accepted a request to a model. */
  readonly accepted: Promise<void>;
  readonly #run: EndpointOptions;
  readonly #shared: Shared;
  readonly #tokenHash: Buffer;
  readonly #provider: ProviderEndpoint | undefined;
  readonly #git = new Capacity(mostGitRequests);
  readonly #egress: Egress | undefined;
  readonly #mcpServers: McpServers | undefined;
  readonly #server: Server;
  readonly #sockets = new Set<Duplex>();
  #requests = 0;

  constructor(shared: Shared, run: EndpointOptions) {
    this.#run = run;
    this.#shared = shared;
    this.#tokenHash = hashSecret(run.token);
    let onFailure: (failure: EndpointFailure) => void = () => {};
    this.failure = new Promise((resolve) => {
      onFailure = resolve;
    });
    let onAccepted = (): void => {};
    this.accepted = new Promise((resolve) => {
      onAccepted = resolve;
    });
    this.#provider =
      run.provider &&
      new ProviderEndpoint({
        ...shared,
        ...run.provider,
        accounts: shared.providers[run.provider.name],
        usualAccount: run.usualAccount,
        isRetried: run.isRetried,
        credit: run.credit,
        token: run.token,
        listener: run.listener,
        trace: run.trace,
        onFailure,
        onAccepted,
      });
    this.#egress = run.allowHosts && new Egress(run.allowHosts, (item) => run.listener.item(item));
    this.#mcpServers = run.mcpServers && new McpServers({ ...run, ...run.mcpServers });
    // No limits on requests and idle connections: a push or a model may take longer than any timeout, and a request on
    // a connection that is just being closed would fail.
    const timeouts = {
      headersTimeout: shared.receiveMs,
      connectionsCheckingInterval: shared.receiveMs / 2,
      requestTimeout: 0,
      keepAliveTimeout: 0,
    };
    this.#server = createServer(timeouts, (request, response) => {
      refuseSmallParts(request);
      try {
        this.#handle(request, response);
      } catch (error) {
        shared.log.error({ err: error, path: request.url }, 'gateway request failed');
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

  /** Undefined when it listens on a socket. */
  get port(): number | undefined {
    const address = this.#server.address() as AddressInfo | string | null;
    return typeof address === 'object' ? address?.port : undefined;
  }

  /** Its account now; undefined when the run uses no model, or the runner has none. */
  get account(): string | undefined {
    return this.#provider?.account;
  }

  get providerName(): ModelProvider | undefined {
    return this.#run.provider?.name;
  }

  /** Why the provider's last answer failed on its side; undefined when it did not. */
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

  /** Ends every request in progress and reports its usage. */
  async close(): Promise<void> {
    this.#provider?.close();
    this.#mcpServers?.close();
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #connect(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // The server no longer handles its errors, and an unhandled one would end the runner.
    socket.on('error', () => socket.destroy());
    if (this.#egress) void this.#egress.connect(request, socket, head);
    else socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    response.on('error', () => {});
    if (this.#requests >= mostRequests)
      return answer(response, 429, `This run has ${mostRequests} requests in progress`, {
        'retry-after': '1',
      });
    this.#requests += 1;
    const silenceTimer = this.#limitSilence(request, response);
    response.once('close', () => {
      this.#requests -= 1;
      clearInterval(silenceTimer);
    });
    const target = request.url ?? '/';
    if (!target.startsWith('/')) return this.#handleAbsolute(request, response, target);
    const at = target.indexOf('?');
    const path = at === -1 ? target : target.slice(0, at);
    const query = at === -1 ? '' : target.slice(at);
    const [, service = '', rest = ''] =
      /^\/(anthropic|bedrock|vertex|openai\/v1|openai|mcp-servers|mcp|git)((?:\/.*)?)$/.exec(path) ?? [];
    const provider = protocols.find((name) => service === name || service === `${name}/v1`);
    if (!this.#hasToken(request)) {
      const message = 'The token of this run is required; it is valid only during the run';
      if (provider) return refuse(provider, response, 401, message);
      const challenge = { 'www-authenticate': 'Basic realm="muster"' };
      return answer(response, 401, message, service === 'git' ? challenge : {});
    }
    if (provider) {
      const allowed = this.#run.provider?.name;
      if (this.#provider && allowed && providerFacts[allowed].protocol === provider)
        return this.#provider.handle(request, response, rest, query);
      const reason = allowed ? `its agent uses ${allowed}` : 'it is a rehearsal, without a model';
      return refuse(provider, response, 404, `This run has no access to ${provider}: ${reason}`);
    }
    if (service === 'mcp' && rest === '')
      return void forwardToService(request, response, query, {
        ...this.#shared,
        ...this.#run,
        traceparent: this.#run.trace?.traceparent,
      });
    if (service === 'mcp-servers' && this.#mcpServers)
      return this.#mcpServers.handle(request, response, rest);
    if (service === 'git' && this.#run.git) return void this.#toGit(request, response, target);
    answer(response, 404, `Not found; the gateway serves ${served}`);
  }

  #handleAbsolute(request: IncomingMessage, response: ServerResponse, target: string): void {
    const uri = URL.canParse(target) ? new URL(target) : undefined;
    if (!uri) return answer(response, 400, 'The request target is neither a path nor an absolute URI');
    if (!this.#egress) return answer(response, 403, 'The gateway is not a proxy for this run');
    void this.#egress.forward(request, response, uri);
  }

  /** Disconnects a client that stops in the middle of its request, unless its bytes are still unread here. */
  #limitSilence(request: IncomingMessage, response: ServerResponse): NodeJS.Timeout {
    let bytes = request.socket.bytesRead;
    const timer = setInterval(() => {
      if (request.complete) return clearInterval(timer);
      const isSilent = request.socket.bytesRead === bytes && request.readableLength === 0;
      bytes = request.socket.bytesRead;
      if (isSilent) response.destroy();
    }, 2 * this.#shared.receiveMs);
    return timer;
  }

  async #toGit(request: IncomingMessage, response: ServerResponse, target: string): Promise<void> {
    const release = await this.#git.take(1, response);
    if (!release) return;
    response.once('close', release);
    this.#run.git?.(request, response, target);
  }

  #hasToken({ headers }: IncomingMessage): boolean {
    const [, scheme = '', credentials = ''] = /^(\w+) +(\S+)$/.exec(headers.authorization ?? '') ?? [];
    const candidates = [headers['x-api-key'], scheme.toLowerCase() === 'bearer' ? credentials : undefined];
    if (scheme.toLowerCase() === 'basic') {
      const pair = Buffer.from(credentials, 'base64').toString();
      candidates.push(pair.slice(pair.indexOf(':') + 1));
    }
    return candidates.some(
      (text) => typeof text === 'string' && timingSafeEqual(hashSecret(text), this.#tokenHash),
    );
  }
}
