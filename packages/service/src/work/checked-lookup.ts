import { lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { canonicalHost, type HostRule, mayHaveAddress, type Target } from '../lib/host-rules.ts';
import { HostError } from './host-error.ts';

/** Throws if the host is itself an address of an internal network: an address is not looked up. */
export function refuseInnerAddress(target: Target, innerHosts: readonly HostRule[]): void {
  const host = canonicalHost(target.host);
  if (isIP(host) && !mayHaveAddress(target, host, innerHosts)) throw innerAddress(target, host);
}

/**
 * Resolves a name for one connection, which gets only addresses that it may have: public ones, and those of internal
 * networks if the operator lists the host. So a name whose address changes after a check has no effect.
 */
export function checkedLookup(target: Target, innerHosts: readonly HostRule[]): LookupFunction {
  return (name, options, done) => {
    lookup(name, { ...options, all: true }, (error, found) => {
      if (error) return done(error, '', 0);
      const allowed = found.filter(({ address }) => mayHaveAddress(target, address, innerHosts));
      const [first] = allowed;
      if (!first) return done(innerAddress(target, found[0]?.address ?? ''), '', 0);
      if (options.all) done(null, allowed);
      else done(null, first.address, first.family);
    });
  };
}

const innerAddress = ({ host, port }: Target, address: string): HostError =>
  new HostError(
    'refused',
    0,
    `${host} is ${host === address ? '' : `${address}, `}an address of an internal network; to allow it, add ${host}:${port} to MUSTER_ALLOW_INNER_HOSTS`,
  );
