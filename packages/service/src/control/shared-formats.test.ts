import { expect, test } from 'vitest';
import { ServiceSecrets } from '../lib/service-secret.ts';
import { contentDigest } from './agents/make-commands.ts';
import { PageTokens } from './agents/page-tokens.ts';
import { changesIn } from './watching/node-bus.ts';

/**
 * What nodes of two versions exchange during an upgrade. The literals are from an earlier build: if one of these tests
 * fails, a caller of that build gets an error.
 */
test('a digest is the same in every version, so that a repeated request is recognized', () => {
  const request = {
    description: 'Fix the login',
    model: 'claude-opus-4-8',
    labels: { team: 'web' },
    tasks: [{ id: 'a', subject: 'Reproduce it' }],
    deliverAt: '2026-01-31T10:00:00+01:00',
  };
  expect(contentDigest(request)).toBe('ft1SUsb0itYkVxTUksuGmdBaVjqI10907ecaWV809xs');
  expect(contentDigest(request, { workspace: 'default', agent: ['login'] })).toBe(
    'seA83EY6KsnFTs_nFoSdikhuCPMFLUxseXAgf2AANsg',
  );
});

test('a page token of an earlier version works', () => {
  const tokens = new PageTokens(new ServiceSecrets('test-secret-test-secret-test-secret-1'));
  expect(tokens.open('7/agents', '22y9ka7t5M-PgVqArNcIqwhcETwFMKzfAhagDsLK79Nd9Oa7tw')).toBe('the place');
});

test.each([
  ['not JSON'],
  ['null'],
  ['[]'],
  ['{"node": "a", "version": 2}'],
  ['{"node": "a", "agents": {"7": ["x"]}}'],
])("a notification that this version can't read means that anything may have changed: %s", (payload) => {
  expect(changesIn(payload)).toEqual({ many: true });
});

test('unknown fields of a notification are ignored', () => {
  const known = { node: 'a', agents: [{ tenant: 7, id: 'x' }] };
  expect(changesIn(JSON.stringify({ ...known, added: 1 }))).toMatchObject(known);
});
