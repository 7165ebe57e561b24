import type { Caller } from '@muster/sdk';
import { expect, test } from 'vitest';
import { agentOfRow, keyTitle, valueText } from './names.ts';

test.each([
  ['account', 'codehost_oauth/ada', ['codehost_oauth/ada'], 'ada'],
  ['account', 'idp_oidc/ada', ['codehost_oauth/ada', 'idp_oidc/ada'], 'ada (idp_oidc)'],
  ['model', 'opus', [], 'opus'],
  ['label:team', '', [], 'Without this label'],
] as const)('%s %j is shown as a name', (key, value, values, text) =>
  expect(valueText(key, value, values)).toBe(text),
);

test('a label is called by its key', () => expect(keyTitle('label:team')).toBe('Label team'));

test('a row of an agent links to it, and one of deleted agents to none', () => {
  const caller = { tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'acme' } } as Caller;
  const keys = { account: 'codehost_oauth/ada', workspace: 'shop', agent: 'build/web' };
  expect(agentOfRow({ keys }, 'agent', caller)).toEqual({
    tenant: caller.tenant,
    ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
    account: 'ada',
    workspace: 'shop',
    agent: ['build', 'web'],
  });
  expect(agentOfRow({ keys: { ...keys, agent: '' } }, 'agent', caller)).toBeUndefined();
});
