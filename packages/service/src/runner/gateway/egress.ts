import { type LookupAddress, lookup } from 'node:dns';
import { type IncomingMessage, request as requestHttp, type ServerResponse } from 'node:http';
import { connect, isIP, type LookupFunction } from 'node:net';
import { type Duplex, pipeline } from 'node:stream';
import { promisify } from 'node:util';
import type { ReportItem } from '@muster/sdk/contract';
import { messageOf } from '../../lib/message-of.ts';
import { canonicalHost, isInner } from './address.ts';
import { Capacity } from './capacity.ts';
import { framing, onward, statusOf } from './upstream.ts';

const resolve = promisify(lookup);

/**
 * A lookup takes one of the four threads by which this process also reads files, and may take it for half a minute.
 * An agent can ask for any number of names below a wildcard: each run looks up one at a time, all of them two.
 */
const allLookups = new Capacity(2);

/** How long a tunnel may carry nothing. */
const idleMs = 15 * 60_000;

interface Rule {
  readonly host: string;
  /** The host is a suffix: every name below it, itself not. */
  readonly isWildcard: boolean;
  readonly port: number | undefined;
}

type Client = Duplex | ServerResponse;

interface Target {
  readonly host: string;
  readonly port: number;
}

const usualPorts = [80, 443];

/** An agent can ask for any number of hosts; its timeline needs not hold them all. */
const mostWarnings = 100;

/** A request for a place where the agent may not go, or that can't be found. */
class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * The way to the hosts that the agent's environment allows, as a forward proxy: CONNECT, and requests for an absolute
 * URI. A name is resolved here, once, and what it was resolved to is what is connected to: a name that changes its
 * mind leads nowhere else, and one that points into the runner's own network leads nowhere at all.
 */
export class Egress {
  readonly #rules: readonly Rule[];
  readonly #item: (item: ReportItem) => void;
  readonly #refused = new Set<string>();
  readonly #lookups = new Capacity(1);

  constructor(allowHosts: readonly string[], item: (item: ReportItem) => void) {
    this.#item = item;
    this.#rules = allowHosts.flatMap((text) => {
      const rule = ruleOf(text);
      if (!rule) this.#item({ type: 'WARNING', text: notAHost(text) });
      return rule ?? [];
    });
  }

  /** The tunnel of a CONNECT; the socket is the client's from now on. */
  async connect(request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    try {
      const target = authorityOf(request.url ?? '');
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
      answer(client, refusedWith(error), messageOf(error));
    }
  }

  /** A plain request for an absolute URI. */
  async forward(request: IncomingMessage, response: ServerResponse, uri: URL): Promise<void> {
    const target = { host: uri.hostname, port: Number(uri.port || 80) };
    const refuse = (status: number, text: string): void => {
      if (response.headersSent) response.destroy();
      else response.writeHead(status, { 'content-type': 'text/plain' }).end(`${text}\n`);
    };
    try {
      if (uri.protocol !== 'http:') throw new Refusal(400, `${uri.protocol}// goes through CONNECT only`);
      const admitted = await this.#admit(target, response);
      if (!admitted || response.destroyed) return;
      const headers = { ...onward(request, () => false), ...framing(request), host: uri.host };
      const options = { method: request.method, headers, lookup: admitted, agent: false };
      const upstream = requestHttp(uri, options);
      response.once('close', () => upstream.destroy());
      upstream.on('error', (error) => {
        request.unpipe().resume();
        refuse(502, unreachable(target, error));
      });
      upstream.once('response', (reply) => {
        response.writeHead(
          statusOf(reply),
          onward(reply, () => false),
        );
        pipeline(reply, response, () => {});
      });
      request.pipe(upstream);
    } catch (error) {
      refuse(refusedWith(error), messageOf(error));
    }
  }

  /** What the connection is to use instead of resolving the name once more; undefined when the client has gone. */
  async #admit(target: Target, client: Client): Promise<LookupFunction | undefined> {
    const host = canonicalHost(target.host);
    if (!this.#rules.some((rule) => matches(rule, host, target.port))) {
      throw this.#refusal(target, `is not among the \`allowHosts\` of the agent's environment`);
    }
    const found = isIP(host) ? [{ address: host, family: isIP(host) }] : await this.#lookUp(host, client);
    if (!found) return undefined;
    const allowed = found.filter(
      ({ address }) => !isInner(address) || this.#isNamed(host, address, target.port),
    );
    if (allowed.length === 0) {
      const addresses = found.map(({ address }) => address).join(', ');
      throw this.#refusal(
        target,
        `is ${addresses}, which is not on the open internet; only that address itself, among the \`allowHosts\` of the agent's environment, would allow it`,
      );
    }
    return (_name, options, done) => {
      const [first] = allowed;
      if (options.all) done(null, allowed);
      else done(null, first?.address ?? '', first?.family);
    };
  }

  async #lookUp(host: string, client: Client): Promise<LookupAddress[] | undefined> {
    const ownTurn = await this.#lookups.take(1, client);
    const turn = ownTurn && (await allLookups.take(1, client));
    try {
      return turn && (await resolve(host, { all: true }));
    } catch (error) {
      throw new Refusal(502, `${host} can't be resolved: ${codeOf(error)}`);
    } finally {
      turn?.();
      ownTurn?.();
    }
  }

  /** An inner address is only reached when it is listed itself: a name may be pointed anywhere by whoever owns it. */
  #isNamed(host: string, address: string, port: number): boolean {
    if (host === 'localhost') return true;
    return this.#rules.some((rule) => !rule.isWildcard && matches(rule, canonicalHost(address), port));
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

function matches(rule: Rule, host: string, port: number): boolean {
  if (rule.port === undefined ? !usualPorts.includes(port) : rule.port !== port) return false;
  return rule.isWildcard ? host.endsWith(`.${rule.host}`) : host === rule.host;
}

/** `example.com`, `*.example.com:8443`, `10.0.0.7`, `[::1]:80` */
function ruleOf(text: string): Rule | undefined {
  const isWildcard = text.startsWith('*.');
  const rest = isWildcard ? text.slice(2) : text;
  if (isIP(rest) === 6) return { host: canonicalHost(rest), isWildcard, port: undefined };
  const target = authorityOf(rest);
  const host = canonicalHost(target?.host ?? rest);
  if (isWildcard ? !isName(host) : !isName(host) && isIP(host) === 0) return undefined;
  return { host, isWildcard, port: target?.port };
}

/** Whether an entry of `allowHosts` names an address of this machine or of its networks. */
export function isInnerRule(text: string): boolean {
  const rule = ruleOf(text);
  return (
    rule !== undefined &&
    !rule.isWildcard &&
    (rule.host === 'localhost' || (isIP(rule.host) !== 0 && isInner(rule.host)))
  );
}

const isName = (host: string): boolean =>
  host.length <= 253 &&
  isIP(host) === 0 &&
  /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/.test(host);

const notAHost = (text: string): string =>
  `\`allowHosts\` of the environment: ${JSON.stringify(text)} allows nothing; write a host as in example.com, *.example.com or example.com:8443.`;

function authorityOf(text: string): Target | undefined {
  const [, host, digits] = /^(\[[^\]]+\]|[^:[\]]+):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  return host && port >= 1 && port <= 65_535 ? { host: host.replace(/^\[|\]$/g, ''), port } : undefined;
}

function answer(client: Duplex, status: number, text: string): void {
  if (client.destroyed) return;
  const body = `${text}\n`;
  client.end(
    `HTTP/1.1 ${status} Refused\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

const unreachable = ({ host, port }: Target, error: unknown): string =>
  `${host}:${port} can't be reached: ${codeOf(error)}`;

const refusedWith = (error: unknown): number => (error instanceof Refusal ? error.status : 500);

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? messageOf(error);
