import { type LookupAddress, lookup } from 'node:dns';
import { type IncomingMessage, request as requestHttp, type ServerResponse } from 'node:http';
import { BlockList, connect, isIP, type LookupFunction } from 'node:net';
import { type Duplex, pipeline } from 'node:stream';
import { promisify } from 'node:util';
import type { ReportItem } from '@muster/sdk/contract';
import { messageOf } from '../../lib/errors.ts';
import { Capacity } from './capacity.ts';
import { forward, forwardedHeaders, framingHeaders } from './upstream.ts';

const resolve = promisify(lookup);

/**
 * Addresses that are not on the public internet: this machine, its networks, the cloud's metadata service, and every
 * form of IPv6 that contains an IPv4 address, which would reach the same hosts by another name.
 */
const privateAddresses = { ipv4: new BlockList(), ipv6: new BlockList() };

const subnets = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12'],
  ...['192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15'],
  ...['198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/4', '240.0.0.0/4'],
  ...['::/96', '::ffff:0:0/96', '64:ff9b::/96', '64:ff9b:1::/48', '100::/64', '2001::/23'],
  ...['2001:db8::/32', '2002::/16', '3fff::/20', '5f00::/16', 'fc00::/7', 'fe80::/10', 'fec0::/10'],
  ...['ff00::/8'],
];

for (const subnet of subnets) {
  const [network = '', bits] = subnet.split('/');
  // Separate lists: in one, the block of mapped addresses (::ffff:0:0/96) would match every IPv4 address.
  const family = isIP(network) === 6 ? 'ipv6' : 'ipv4';
  privateAddresses[family].addSubnet(network, Number(bits), family);
}

export function isPrivateAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return privateAddresses.ipv4.check(address, 'ipv4');
  // A zone names an interface of this machine.
  return family !== 6 || address.includes('%') || privateAddresses.ipv6.check(address, 'ipv6');
}

/** The form in which hosts are compared: lower case, no brackets, no final dot, IPv6 in its canonical form. */
export function canonicalHost(host: string): string {
  const bare = host
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
    .toLowerCase();
  return isIP(bare) === 6 && !bare.includes('%') ? new URL(`http://[${bare}]`).hostname.slice(1, -1) : bare;
}

/**
 * A DNS lookup occupies one of the four threads with which this process also reads files, possibly for half a minute.
 * An agent can request any number of names below a wildcard: one lookup at a time per run, two for all runs.
 */
const allLookups = new Capacity(2);

/** How long a tunnel may be idle. */
const idleMs = 15 * 60_000;

interface Rule {
  readonly host: string;
  /** `*.host`: matches every name below the host, but not the host itself. */
  readonly isWildcard: boolean;
  readonly port: number | undefined;
}

type Client = Duplex | ServerResponse;

interface Target {
  readonly host: string;
  readonly port: number;
}

const defaultPorts = [80, 443];

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
  readonly #rules: readonly Rule[];
  readonly #item: (item: ReportItem) => void;
  readonly #refused = new Set<string>();
  readonly #lookups = new Capacity(1, allLookups);

  constructor(allowHosts: readonly string[], item: (item: ReportItem) => void) {
    this.#item = item;
    this.#rules = allowHosts.flatMap((text) => {
      const rule = ruleOf(text);
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
    if (!this.#rules.some((rule) => matches(rule, host, target.port))) {
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
    const release = await this.#lookups.take(1, client);
    try {
      return release && (await resolve(host, { all: true }));
    } catch (error) {
      throw new Refusal(502, `${host} can't be resolved: ${codeOf(error)}`);
    } finally {
      release?.();
    }
  }

  /** A private address has to be listed itself: the owner of a name can point it to any address. */
  #isListed(host: string, address: string, port: number): boolean {
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
  if (rule.port === undefined ? !defaultPorts.includes(port) : rule.port !== port) return false;
  return rule.isWildcard ? host.endsWith(`.${rule.host}`) : host === rule.host;
}

/** `example.com`, `*.example.com:8443`, `10.0.0.7`, `[::1]:80` */
function ruleOf(text: string): Rule | undefined {
  const isWildcard = text.startsWith('*.');
  const rest = isWildcard ? text.slice(2) : text;
  if (isIP(rest) === 6) return { host: canonicalHost(rest), isWildcard, port: undefined };
  const target = hostAndPort(rest);
  const host = canonicalHost(target?.host ?? rest);
  if (isWildcard ? !isName(host) : !isName(host) && isIP(host) === 0) return undefined;
  return { host, isWildcard, port: target?.port };
}

/** Whether an entry of `allowHosts` is an address of this machine or of its networks. */
export function isPrivateRule(text: string): boolean {
  const rule = ruleOf(text);
  return (
    rule !== undefined &&
    !rule.isWildcard &&
    (rule.host === 'localhost' || (isIP(rule.host) !== 0 && isPrivateAddress(rule.host)))
  );
}

const isName = (host: string): boolean =>
  host.length <= 253 &&
  isIP(host) === 0 &&
  /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/.test(host);

const invalidHost = (text: string): string =>
  `\`allowHosts\` of the environment: ${JSON.stringify(text)} is ignored; expected a host like example.com, *.example.com or example.com:8443.`;

function hostAndPort(text: string): Target | undefined {
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

const statusFor = (error: unknown): number => (error instanceof Refusal ? error.status : 500);

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? messageOf(error);
