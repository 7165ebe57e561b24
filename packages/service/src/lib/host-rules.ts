import { BlockList, isIP } from 'node:net';

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

const defaultPorts = [80, 443];

/** Which hosts are allowed: `example.com`, `*.example.com:8443`, `10.0.0.7`, `[::1]:80`. */
export interface HostRule {
  readonly host: string;
  /** `*.host`: matches every name below the host, but not the host itself. */
  readonly isWildcard: boolean;
  /** Without one, the ports of http and https. */
  readonly port: number | undefined;
}

export interface Target {
  readonly host: string;
  readonly port: number;
}

export function matchesHost(rule: HostRule, host: string, port: number): boolean {
  if (rule.port === undefined ? !defaultPorts.includes(port) : rule.port !== port) return false;
  return rule.isWildcard ? host.endsWith(`.${rule.host}`) : host === rule.host;
}

/** Whether a connection to a host may have this address: a public one, or an inner one if a rule names host or address. */
export function mayHaveAddress(
  { host, port }: Target,
  address: string,
  innerHosts: readonly HostRule[],
): boolean {
  if (!isPrivateAddress(address)) return true;
  const names = [canonicalHost(host), canonicalHost(address)];
  return innerHosts.some((rule) => names.some((name) => matchesHost(rule, name, port)));
}

/** Undefined if the text is not a rule. */
export function hostRuleOf(text: string): HostRule | undefined {
  const isWildcard = text.startsWith('*.');
  const rest = isWildcard ? text.slice(2) : text;
  if (isIP(rest) === 6) return { host: canonicalHost(rest), isWildcard, port: undefined };
  const target = hostAndPort(rest);
  const host = canonicalHost(target?.host ?? rest);
  if (isWildcard ? !isName(host) : !isName(host) && isIP(host) === 0) return undefined;
  return { host, isWildcard, port: target?.port };
}

/** Whether a rule is an address of this machine or of its networks. */
export function isPrivateRule(text: string): boolean {
  const rule = hostRuleOf(text);
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

export function hostAndPort(text: string): Target | undefined {
  const [, host, digits] = /^(\[[^\]]+\]|[^:[\]]+):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  return host && port >= 1 && port <= 65_535 ? { host: host.replace(/^\[|\]$/g, ''), port } : undefined;
}
