import { describe, expect, it } from 'vitest';
import { readTenantAllow, TenantRights } from './tenant-allow.ts';

const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: 'acme' } as const;

describe('MUSTER_TENANT_ALLOW', () => {
  it('accepts both forms of a provider', () => {
    for (const name of ['codehost_app/acme', 'PROVIDER_CODEHOST_APP/acme']) {
      const allow = readTenantAllow(JSON.stringify({ [name]: { fromRunner: ['A'], repos: ['/srv/**'] } }));
      const rights = new TenantRights(allow, tenant, false);
      expect([rights.mayReadVariable('A'), rights.mayReadVariable('B')]).toEqual([true, false]);
      expect([rights.mayReach('/srv/x'), rights.mayReach('/etc/x')]).toEqual([true, false]);
    }
  });

  it('allows the first tenant everything, and a tenant that is not listed nothing', () => {
    const allow = readTenantAllow('{"codehost_app/other": {"fromRunner": ["A"], "repos": ["**"]}}');
    const first = new TenantRights(allow, tenant, true);
    expect([first.mayReadVariable('A'), first.mayReach('/x'), first.mayReach(undefined)]).toEqual([
      true,
      true,
      true,
    ]);
    const unlisted = new TenantRights(allow, tenant, false);
    expect([unlisted.mayReadVariable('A'), unlisted.mayReach('/x')]).toEqual([false, false]);
  });

  it('allows submodules what is near their repository or listed, for the first tenant too', () => {
    const allow = readTenantAllow('{"codehost_app/acme": {"repos": ["https://listed.example/**"]}}');
    const [same, listed, other] = ['git', 'listed', 'other'].map((name) => `https://${name}.example/a/b`);
    const local = '/srv/git/c.git';
    const near = (isFirst: boolean, url: string) => {
      const rights = new TenantRights(allow, tenant, isFirst).ofNamedBy(url);
      return [same, listed, other, local].filter((target) => rights.mayReach(target));
    };
    expect(near(true, 'https://git.example/team/app.git')).toEqual([same, listed]);
    expect(near(true, 'git@git.example:team/app.git')).toEqual([same, listed]);
    expect(near(true, '/srv/git/app.git')).toEqual([listed, local]);
    expect(near(true, '/srv/other/app.git')).toEqual([listed]);
    expect(near(false, 'https://git.example/team/app.git')).toEqual([listed]);
    // Another scheme or port is another server.
    for (const origin of ['http://git.example', 'https://git.example:8443', 'ssh://git@git.example:2222'])
      expect(near(true, `${origin}/team/app.git`)).toEqual([listed]);
    expect(near(true, 'https://git.example:443/team/app.git')).toEqual([same, listed]);
  });

  it.each([
    ['not JSON', '{', /expected JSON such as/],
    ['no object', '[]', /expected a JSON object/],
    ['a tenant without a provider', '{"acme": {}}', /"acme": expected a tenant as <provider>\/<org>/],
    ['an unknown provider', '{"github/acme": {}}', /expected a tenant as/],
    ['a tenant without an org', '{"codehost_app/": {}}', /expected a tenant as/],
    ['no object for a tenant', '{"codehost_app/acme": []}', /"codehost_app\/acme": expected an object/],
    [
      'an unknown field',
      '{"codehost_app/acme": {"repo": []}}',
      /unknown field "repo"; expected fromRunner, repos and mcpServers/,
    ],
    [
      'a text for a list',
      '{"codehost_app/acme": {"repos": "x"}}',
      /repos: expected a list of non-empty strings/,
    ],
    ['an empty name', '{"codehost_app/acme": {"fromRunner": [""]}}', /fromRunner: expected a list/],
  ])('is refused when it is %s', (_, text, message) => {
    expect(() => readTenantAllow(text)).toThrow(message);
  });
});
