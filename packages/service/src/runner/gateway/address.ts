import { BlockList, isIP } from 'node:net';

/**
 * Which addresses are not of the open internet: the machine itself, its networks, the cloud's metadata service, and
 * every form of IPv6 that has an IPv4 address inside, which would lead there by another name.
 */
const inner = { ipv4: new BlockList(), ipv6: new BlockList() };

for (const subnet of [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]) {
  const [network = '', bits] = subnet.split('/');
  inner.ipv4.addSubnet(network, Number(bits), 'ipv4');
}

for (const subnet of [
  '::/96',
  '::ffff:0:0/96',
  '64:ff9b::/96',
  '64:ff9b:1::/48',
  '100::/64',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
  '5f00::/16',
  'fc00::/7',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
]) {
  const [network = '', bits] = subnet.split('/');
  inner.ipv6.addSubnet(network, Number(bits), 'ipv6');
}

export function isInner(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return inner.ipv4.check(address, 'ipv4');
  // A zone names an interface of this machine.
  return family !== 6 || address.includes('%') || inner.ipv6.check(address, 'ipv6');
}

/** A host as it is compared: lower case, without brackets or a final dot, an address in its one canonical form. */
export function canonicalHost(host: string): string {
  const bare = host
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
    .toLowerCase();
  return isIP(bare) === 6 && !bare.includes('%') ? new URL(`http://[${bare}]`).hostname.slice(1, -1) : bare;
}
