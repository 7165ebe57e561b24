import type { LookupAddress } from 'node:dns';
import { type IncomingMessage, request as requestHttp, type ServerResponse } from 'node:http';
import { connect, isIP, type LookupFunction } from 'node:net';
import { type Duplex, pipeline } from 'node:stream';
import type { ReportItem } from '@muster/sdk/contract';
import { messageOf } from '../../lib/errors.ts';
import {
  canonicalHost,
  type HostRule,
  hostAndPort,
  hostRuleOf,
  isPrivateAddress,
  matchesHost,
  type Target,
} from '../../lib/host-rules.ts';
import { Lookups } from './lookups.ts';
import { forward, forwardedHeaders, framingHeaders } from './upstream.ts';

/** How long a tunnel may be idle. */
const idleMs = 15 * 60_000;

type Client = Duplex | ServerResponse;

/** An agent can request any number of hosts; the timeline shows the first ones. */
const mostWarnings = 100;

/** A request for a host that is not allowed or not found. */
class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * A forward proxy (CONNECT, and requests for an absolute URI) to the hosts that the agent's environment allows. A name is
 * resolved once, checked, and the connection uses that address: a later change of the DNS entry has no effect, and a
 * name that points into the runner's own network is refused.
 */
export class Egress {
  readonly #rules: readonly HostRule[];
  readonly #item: (item: ReportItem) => void;
  readonly #refused = new Set<string>();
  readonly #lookups = new Lookups();

  constructor(allowHosts: readonly string[], item: (item: ReportItem) => void) {
    this.#item = item;
    this.#rules = allowHosts.flatMap((text) => {
      const rule = hostRuleOf(text);
      if (!rule) this.#item({ type: 'WARNING', text: invalidHost(text) });
      return rule ?? [];
    });
  }

  /** Opens the tunnel of a CONNECT. Takes over the client's socket. */
  async connect(request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    try {
      const target = hostAndPort(request.url ?? '');
      if (!target) throw new Refusal(400, `CONNECT needs host:port, not ${request.url}`);
      const admitted = await this.#admit(target, client);
      if (!admitted || client.destroyed) return;
      const upstream = connect({ ...target, lookup: admitted });
      client.once('close', () => upstream.destroy());
      let isOpen = false;
      upstream.once('connect', () => {
        isOpen = true;
        upstream.setTimeout(idleMs, () => upstream.destroy());
        client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
        upstream.write(head);
        pipeline(client, upstream, () => {});
        pipeline(upstream, client, () => {});
      });
      upstream.once('error', (error) => {
        if (isOpen) client.destroy();
        else answer(client, 502, unreachable(target, error));
      });
    } catch (error) {
      answer(client, statusFor(error), messageOf(error));
    }
  }

  /** A plain request for an absolute URI. */
  async forward(request: IncomingMessage, response: ServerResponse, uri: URL): Promise<void> {
    const target = { host: uri.hostname, port: Number(uri.port || 80) };
    const refuse = (status: number, text: string): void =>
      void response.writeHead(status, { 'content-type': 'text/plain' }).end(`${text}\n`);
    try {
      if (uri.protocol !== 'http:') throw new Refusal(400, `${uri.protocol}// goes through CONNECT only`);
      const admitted = await this.#admit(target, response);
      if (!admitted || response.destroyed) return;
      const headers = { ...forwardedHeaders(request), ...framingHeaders(request), host: uri.host };
      const options = { method: request.method, headers, lookup: admitted, agent: false };
      forward(request, requestHttp(uri, options), response, (error) =>
        refuse(502, unreachable(target, error)),
      );
    } catch (error) {
      refuse(statusFor(error), messageOf(error));
    }
  }

  /** The lookup for the connection, which returns the checked addresses. Undefined when the client disconnected. */
  async #admit(target: Target, client: Client): Promise<LookupFunction | undefined> {
    const host = canonicalHost(target.host);
    if (!this.#rules.some((rule) => matchesHost(rule, host, target.port))) {
      throw this.#refusal(target, `is not among the \`allowHosts\` of the agent's environment`);
    }
    const found = isIP(host) ? [{ address: host, family: isIP(host) }] : await this.#lookUp(host, client);
    if (!found) return undefined;
    const allowed = found.filter(
      ({ address }) => !isPrivateAddress(address) || this.#isListed(host, address, target.port),
    );
    if (allowed.length === 0) {
      const addresses = found.map(({ address }) => address).join(', ');
      throw this.#refusal(
        target,
        `is ${addresses}, which is not a public address; to allow it, add the address itself to the \`allowHosts\` of the agent's environment`,
      );
    }
    return (_name, options, done) => {
      const [first] = allowed;
      if (options.all) done(null, allowed);
      else done(null, first?.address ?? '', first?.family);
    };
  }

  async #lookUp(host: string, client: Client): Promise<LookupAddress[] | undefined> {
    try {
      return await this.#lookups.find(host, client);
    } catch (error) {
      throw new Refusal(502, `${host} can't be resolved: ${codeOf(error)}`);
    }
  }

  /** A private address has to be listed itself: the owner of a name can point it to any address. */
  #isListed(host: string, address: string, port: number): boolean {
    if (host === 'localhost') return true;
    return this.#rules.some((rule) => !rule.isWildcard && matchesHost(rule, canonicalHost(address), port));
  }

  #refusal({ host, port }: Target, why: string): Refusal {
    const text = `The sandbox refused a connection to ${host}:${port}: it ${why}.`;
    if (!this.#refused.has(host) && this.#refused.size < mostWarnings) {
      this.#refused.add(host);
      this.#item({ type: 'WARNING', text, data: { host, port } });
    }
    return new Refusal(403, text);
  }
}

const invalidHost = (text: string): string =>
  `\`allowHosts\` of the environment: ${JSON.stringify(text)} is ignored; expected a host like example.com, *.example.com or example.com:8443.`;

function answer(client: Duplex, status: number, text: string): void {
  if (client.destroyed) return;
  const body = `${text}\n`;
  client.end(
    `HTTP/1.1 ${status} Refused\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

const unreachable = ({ host, port }: Target, error: unknown): string =>
  `${host}:${port} can't be reached: ${codeOf(error)}`;

const statusFor = (error: unknown): number => (error instanceof Refusal ? error.status : 500);

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? messageOf(error);
