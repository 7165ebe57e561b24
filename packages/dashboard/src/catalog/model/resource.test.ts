import type { Caller } from '@muster/sdk';
import { kinds, kindTable } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { templateOf } from './document-schema.ts';
import { readText, textOf } from './document-text.ts';

import { isExpired, writeRefusal } from './resource.ts';

describe('the summary of a resource', () => {
  test.each([
    [
      'workspace',
      { repos: ['https://x.org/a/web.git', { url: 'git@x.org:b/api.git' }], model: 'm' },
      'web, api · model m',
    ],
    ['workspace', { repos: ['a/1', 'a/2', 'a/3', 'a/4'] }, '1, 2 and 2 more'],
    ['persona', { instructions: 'Be kind.\nAlways.', model: 'm' }, 'm · Be kind.'],
    [
      'environment',
      { variables: { A: 'x' }, setup: ['a', 'b'], allowHosts: [] },
      '1 variable · 2 setup commands',
    ],
    ['vm-profile', { cpus: 2, memoryMb: 512 }, '2 CPUs · 512 MiB'],
    [
      'pool',
      { maxRuns: 4, maxRunsTotal: 16, vmProfile: 'big' },
      'VM profile big · at most 4 runs per runner · at most 16 runs in total',
    ],
    ['policy', { models: ['a-*', 'b'], maxTurnMinutes: 30 }, 'models a-*, b · 30 minutes per turn'],
    ['token', { role: 'member', account: 'ada', ownerProvider: 'PROVIDER_CODEHOST_OAUTH' }, 'member · ada'],
    ['secret', { fingerprint: '0a1b2c3d' }, 'fingerprint 0a1b2c3d'],
    ['secret', {}, 'no value'],
    ['change-request', { state: 'OPEN', title: 'Fix it', url: 'https://x' }, 'open · Fix it · https://x'],
    ['change-request', { state: 'OPEN', title: 'Fix it', problem: '403' }, 'open · Fix it · problem: 403'],
    ['share-link', { agentId: { agent: ['a', 'b'], account: 'ada', workspace: 'w' } }, 'a/b · of ada · in w'],
  ] as const)('%s', (kind, document, words) => expect(kindTable[kind].summary(document)).toBe(words));

  test.each(kinds)('tolerates a %s of any shape', (kind) => {
    const odd = Object.fromEntries(
      ['repos', 'model', 'instructions', 'variables', 'cpus', 'role', 'ownerProvider', 'agentId', 'type'].map(
        (field) => [field, [null, 3, { a: [] }]],
      ),
    );
    expect(typeof kindTable[kind].summary(odd)).toBe('string');
    expect(typeof kindTable[kind].summary({ agentId: null, repos: 'x', variables: null })).toBe('string');
  });

  test('an expiry in the past is expired', () => {
    expect(isExpired({ expiresAt: '2026-01-01T00:00:00Z' }, Date.parse('2026-01-01T00:00:01Z'))).toBe(true);
    expect(isExpired({ expiresAt: '2026-01-01T00:00:02Z' }, Date.parse('2026-01-01T00:00:01Z'))).toBe(false);
    expect(isExpired({}, Date.now())).toBe(false);
  });
});

test.each(kinds)('the template of a new %s is valid', (kind) => {
  expect(readText(kind, 'x', textOf(kind, 'x', templateOf(kind))).problems).toEqual([]);
});

describe('write access', () => {
  const caller = (role: Caller['role']): Caller => ({
    tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'o' },
    ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
    account: 'ada',
    keyId: 'k',
    role,
    expiresAt: null,
    version: '0.1.0',
  });

  test('a viewer may write nothing, an admin everything but records', () => {
    expect(kinds.filter((kind) => writeRefusal(caller('viewer'), kind) === null)).toEqual([]);
    expect(kinds.filter((kind) => writeRefusal(caller('admin'), kind) !== null)).toEqual(['change-request']);
  });

  test('a member may write personas, its own tokens, links to its own agents, and what starts and tells of them', () => {
    const ada = caller('member');
    expect(kinds.filter((kind) => writeRefusal(ada, kind) === null)).toEqual([
      'persona',
      'trigger',
      'notification',
      'token',
      'share-link',
      'schedule',
    ]);
    expect(writeRefusal(ada, 'token', { account: 'ada' })).toBeNull();
    expect(writeRefusal(ada, 'token', { account: 'bob' })).toMatch(/another account/);
    expect(writeRefusal(ada, 'token', { account: 'ada', ownerProvider: 'PROVIDER_IDP_OIDC' })).not.toBeNull();
    expect(writeRefusal(ada, 'share-link', { agentId: { account: 'bob' } })).toMatch(/another account/);
  });
});
