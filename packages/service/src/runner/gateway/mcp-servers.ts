import {
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as requestHttp,
  type ServerResponse,
} from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { pipeline, Transform } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { limits } from '@muster/sdk/contract';
import type { HarnessListener } from '../../harness/harness.ts';
import { canonicalHost, isPrivateAddress } from '../../lib/host-rules.ts';
import { ValueMask } from '../../lib/value-mask.ts';
import type { RemoteMcpServer, ResolvedMcpServers } from '../workspace/mcp-servers.ts';
import { answer } from './answer.ts';
import { Lookups } from './lookups.ts';
import { forwardedHeaders, framingHeaders, statusOf } from './upstream.ts';

export interface McpServersOptions extends Pick<ResolvedMcpServers, 'remote' | 'headerValues'> {
  /** The run's token, which is never forwarded. */
  readonly token: string;
  readonly listener: Pick<HarnessListener, 'item'>;
}

/** The protocol's methods: a message, the stream of the server's own messages, the end of a session. */
const methods = ['POST', 'GET', 'DELETE'];

/** Headers of the protocol, in both directions. Cookies, challenges and redirects are not forwarded. */
const requestHeaders =
  /^(?:accept|content-type|user-agent|last-event-id|traceparent|tracestate|mcp-[a-z0-9-]+)$/;
const answerHeaders = /^(?:content-type|cache-control|retry-after|mcp-[a-z0-9-]+)$/;

const tooLarge = `The body is larger than ${limits.mcpRequestBytes} bytes`;

/** Idle connections are closed after this time, before servers close them themselves. */
const agentOptions = { keepAlive: true, timeout: 4_000 };

/**
 * The run's access to the remote MCP servers of its workspace (Streamable HTTP). Adds their headers, which the agent
 * never gets: an answer that repeats one is masked. No redirect is followed. Requests and answers are streamed.
 */
export class McpServers {
  readonly #options: McpServersOptions;
  readonly #mask: ValueMask;
  readonly #open = new Map<string, number>();
  readonly #warned = new Set<string>();
  readonly #lookups = new Lookups();
  /** Of this run only: a connection that another tenant opened may have an address that this one may not reach. */
  readonly #agents = { http: new HttpAgent(agentOptions), https: new HttpsAgent(agentOptions) };

  constructor(options: McpServersOptions) {
    this.#options = options;
    this.#mask = new ValueMask(options.headerValues);
  }

  close(): void {
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }

  /** `path` is `/NAME`. */
  handle(request: IncomingMessage, response: ServerResponse, path: string): void {
    const { remote } = this.#options;
    const server = remote.find(({ name }) => path === `/${name}`);
    if (!server) return answer(response, 404, `MCP server ${JSON.stringify(path.slice(1, 101))} not found`);
    const { method = '' } = request;
    if (!methods.includes(method))
      return answer(response, 405, `The method must be one of ${methods.join(', ')}`, {
        allow: methods.join(', '),
      });
    const { mcpRequestBytes, mcpRequestsPerServer } = limits;
    if (Number(request.headers['content-length'] ?? 0) > mcpRequestBytes)
      return answer(response, 413, tooLarge);
    const open = this.#open.get(server.name) ?? 0;
    if (open >= mcpRequestsPerServer)
      return answer(response, 429, `This run has ${open} requests in progress at ${server.name}`, {
        'retry-after': '1',
      });
    this.#open.set(server.name, open + 1);
    response.once('close', () => this.#open.set(server.name, (this.#open.get(server.name) ?? 1) - 1));
    this.#forward(server, request, response);
  }

  #forward(server: RemoteMcpServer, request: IncomingMessage, response: ServerResponse): void {
    const inner = innerAddress(server);
    if (inner !== undefined) return this.#fail(server, response, inner);
    const outgoing = this.#request(server, request, response);
    response.once('close', () => outgoing.destroy());
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      request.unpipe().resume();
      if (response.headersSent || response.destroyed) return void response.destroy();
      this.#fail(server, response, `can't be reached: ${error.code ?? error.message}`);
    });
    outgoing.once('response', (received) => {
      const problem = answerProblem(server, received);
      if (problem !== undefined) {
        received.destroy();
        return this.#fail(server, response, problem);
      }
      response.writeHead(statusOf(received), this.#answerHeaders(received)).flushHeaders();
      pipeline(received, this.#masked(), response, () => {});
    });
    const body = bounded(limits.mcpRequestBytes, () => {
      request.unpipe().resume();
      if (!response.headersSent) answer(response, 413, tooLarge);
      outgoing.destroy();
    });
    request.pipe(body).pipe(outgoing);
  }

  #request(server: RemoteMcpServer, request: IncomingMessage, response: ServerResponse): ClientRequest {
    const { url, headers } = server;
    const own = forwardedHeaders(
      request,
      (name, value) => requestHeaders.test(name) && !value.includes(this.#options.token),
    );
    const options = {
      method: request.method,
      headers: { ...own, ...framingHeaders(request), 'accept-encoding': 'identity', ...headers },
      lookup: this.#lookup(server, response),
    };
    return url.protocol === 'https:'
      ? requestHttps(url, { ...options, agent: this.#agents.https })
      : requestHttp(url, { ...options, agent: this.#agents.http });
  }

  #lookup(server: RemoteMcpServer, response: ServerResponse): LookupFunction {
    return this.#lookups.forConnection(response, (name, found) => {
      const allowed = found.filter(({ address }) => server.mayBeInner === true || !isPrivateAddress(address));
      if (allowed.length === 0) throw new Error(innerText(server, name, found[0]?.address ?? ''));
      return allowed;
    });
  }

  #answerHeaders(received: IncomingMessage): OutgoingHttpHeaders {
    const headers = forwardedHeaders(received, (name) => answerHeaders.test(name));
    return Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, this.#mask.text(String(value))]),
    );
  }

  #masked(): Transform {
    const decoder = new StringDecoder('utf8');
    const masked = this.#mask.stream();
    return new Transform({
      transform: (chunk: Buffer, _encoding, done) => done(null, masked.add(decoder.write(chunk))),
      flush: (done) => done(null, masked.add(decoder.end()) + masked.end()),
    });
  }

  /** The timeline has the first failure of each server. */
  #fail({ name }: RemoteMcpServer, response: ServerResponse, problem: string): void {
    const { listener } = this.#options;
    const text = this.#mask.text(`The MCP server ${name} ${problem}`);
    if (!this.#warned.has(name)) {
      this.#warned.add(name);
      listener.item({ type: 'WARNING', text: `${text}.`, data: { mcpServer: name } });
    }
    answer(response, 502, text);
  }
}

/** Why an answer is not forwarded; undefined if it is. */
function answerProblem({ url }: RemoteMcpServer, { statusCode = 0, headers }: IncomingMessage) {
  if (statusCode === 401) return 'does not accept the headers that the workspace has for it (401)';
  if (statusCode >= 300 && statusCode < 400) {
    const { location = '' } = headers;
    const to = URL.canParse(location, url.href) ? ` to ${new URL(location, url).origin}` : '';
    return `redirects${to} (${statusCode}), which is not followed; write the address to url`;
  }
  const encoding = headers['content-encoding'] ?? 'identity';
  return encoding === 'identity'
    ? undefined
    : `answers with the encoding ${encoding}, which was not asked for`;
}

/** An address is not looked up. */
function innerAddress(server: RemoteMcpServer): string | undefined {
  const host = canonicalHost(server.url.hostname);
  const isRefused = server.mayBeInner !== true && isIP(host) !== 0 && isPrivateAddress(host);
  return isRefused ? innerText(server, host, host) : undefined;
}

const innerText = ({ mayBeInner }: RemoteMcpServer, host: string, address: string): string =>
  `is at ${host === address ? address : `${host}, ${address}`}, an address of an internal network; ${mayBeInner}`;

/** Passes on at most this many bytes. */
function bounded(mostBytes: number, onMore: () => void): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes <= mostBytes) return done(null, chunk);
      onMore();
      done();
    },
  });
}
