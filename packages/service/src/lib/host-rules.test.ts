import { describe, expect, it } from 'vitest';
import { canonicalHost, isPrivateAddress, isPrivateRule } from './host-rules.ts';

describe('addresses', () => {
  it.each([
    '127.0.0.1',
    '10.1.2.3',
    '172.31.0.1',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '0.0.0.0',
    '224.0.0.1',
    '255.255.255.255',
    '::1',
    '::',
    'fe80::1',
    'fe80::1%eth0',
    'fd00::1',
    'ff02::1',
    '::ffff:8.8.8.8',
    '::ffff:7f00:1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    'no address',
  ])('%s is private', (address) => {
    expect(isPrivateAddress(address)).toBe(true);
  });

  it.each(['8.8.8.8', '172.32.0.1', '2606:4700:4700::1111'])('%s is public', (address) => {
    expect(isPrivateAddress(address)).toBe(false);
  });

  it.each(['localhost', 'LOCALHOST:3000', '127.0.0.1', '10.0.0.7:8080', '[::1]:80', 'fd00::1'])(
    '%s in `allowHosts` is private',
    (text) => expect(isPrivateRule(text)).toBe(true),
  );

  it.each(['example.com', '*.localhost', '8.8.8.8:53', 'not a host'])(
    '%s in `allowHosts` is not private',
    (text) => expect(isPrivateRule(text)).toBe(false),
  );

  it('are compared in one form', () => {
    expect(canonicalHost('[0:0:0:0:0:0:0:1]')).toBe('::1');
    expect(canonicalHost('Example.COM.')).toBe('example.com');
  });
});
