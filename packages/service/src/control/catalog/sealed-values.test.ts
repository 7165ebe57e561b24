import { describe, expect, test } from 'vitest';
import { ServiceSecrets } from '../../lib/service-secret.ts';
import { sealedAgain, sealValue, unsealValue } from './sealed-values.ts';
import { signingKeys } from './signing-keys.ts';

const before = new ServiceSecrets('the old secret of this service, long enough');
const during = new ServiceSecrets(
  'the new secret of this service, long enough',
  'the old secret of this service, long enough',
);
const after = new ServiceSecrets('the new secret of this service, long enough');

const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: 'acme' } as const;
const place = { tenant, name: 'npm-token' };

describe('the value of a secret', () => {
  test('is opened only at its own place', () => {
    const stored = sealValue(before, place, 'value', null);
    expect(unsealValue(before, place, stored)).toBe('value');
    expect(unsealValue(before, { tenant, name: 'other' }, stored)).toBeNull();
    expect(unsealValue(before, { tenant: { ...tenant, org: 'other' }, name: place.name }, stored)).toBeNull();
    const other = { ...tenant, provider: 'PROVIDER_IDP_OIDC' } as const;
    expect(unsealValue(before, { tenant: other, name: place.name }, stored)).toBeNull();
  });

  test('can be read during a rotation, and after it if it was sealed again', () => {
    const stored = sealValue(before, place, 'value', null);
    expect(unsealValue(during, place, stored)).toBe('value');
    expect(unsealValue(after, place, stored)).toBeNull();
    const again = sealedAgain(during, place, stored);
    expect(again?.secretId).toBe(after.current.id);
    expect(again && unsealValue(after, place, again)).toBe('value');
    expect(sealedAgain(after, place, stored)).toBeNull();
  });

  test('has a fingerprint that is the same for the same value, through a rotation too', () => {
    const first = sealValue(before, place, 'value', null);
    const again = sealedAgain(during, place, first);
    expect(first.fingerprint).toMatch(/^[0-9a-f]{16}$/);
    expect(sealValue(after, place, 'value', again).fingerprint).toBe(first.fingerprint);
    expect(sealValue(before, place, 'Value', first).fingerprint).not.toBe(first.fingerprint);
  });

  test('has a fingerprint that nobody can compute from the value', () => {
    const [one, other] = [sealValue(before, place, '1234', null), sealValue(before, place, '1234', null)];
    expect(one.fingerprint).not.toBe(other.fingerprint);
  });
});

describe('a signing key', () => {
  const row = (secret_id: string | null) => ({ nonce: 'nonce', sealed: null, secret_id });

  test('stays the same while the secret that made it is known', () => {
    const [made] = signingKeys(before, 'integration', tenant, 'hook', row(before.current.id));
    expect(made).toMatch(/^[\w-]{43}$/);
    expect(signingKeys(during, 'integration', tenant, 'hook', row(before.current.id))).toEqual([made]);
    expect(signingKeys(after, 'integration', tenant, 'hook', row(before.current.id))).toEqual([]);
  });

  test('may be of either secret if it is not recorded which one made it', () => {
    const [made] = signingKeys(before, 'integration', tenant, 'hook', row(before.current.id));
    const both = signingKeys(during, 'integration', tenant, 'hook', row(null));
    expect(both).toHaveLength(2);
    expect(both).toContain(made);
    expect(signingKeys(before, 'integration', tenant, 'hook', row(null))).toEqual([made]);
  });

  test('does not exist without a nonce', () => {
    expect(signingKeys(before, 'integration', tenant, 'hook', { ...row(null), nonce: null })).toEqual([]);
  });
});
