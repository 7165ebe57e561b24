import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type AgentRef, agentIdOf, compareInt64, decodePayload, encodePayload } from './values.ts';

test.each<[AgentRef, object]>([
  ['fix-login', { agent: ['fix-login'] }],
  ['fix-login/tests', { agent: ['fix-login', 'tests'] }],
  ['shop:fix-login/tests', { workspace: 'shop', agent: ['fix-login', 'tests'] }],
  ['shop:', { workspace: 'shop', agent: [] }],
  ['', { agent: [] }],
  ['ada:shop:fix-login', { account: 'ada', workspace: 'shop', agent: ['fix-login'] }],
  ['a:b::fix-login', { account: 'a:b', workspace: '', agent: ['fix-login'] }],
  [
    'service_profile/github:shop:fix-login/tests',
    {
      ownerProvider: 'PROVIDER_SERVICE_PROFILE',
      account: 'github',
      workspace: 'shop',
      agent: ['fix-login', 'tests'],
    },
  ],
  ['nobody/github:shop:a', { account: 'nobody/github', workspace: 'shop', agent: ['a'] }],
  [['fix-login', 'tests'], { agent: ['fix-login', 'tests'] }],
  [
    { account: 'ada', agent: ['a'] },
    { account: 'ada', agent: ['a'] },
  ],
])('%j names the agent %j', (agent, agentId) => {
  expect(agentIdOf(agent)).toEqual(agentId);
});

test('64-bit values compare like numbers, also past 2^53 and below zero', () => {
  const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
  fc.assert(
    fc.property(int64, int64, (a, b) => {
      expect(Math.sign(compareInt64(String(a), String(b)))).toBe(a < b ? -1 : a > b ? 1 : 0);
    }),
  );
});

test.each([
  ['007', 7, 0],
  ['-0', '0', 0],
  ['9007199254740993', '9007199254740992', 1],
  [-3, '2', -1],
])('compareInt64(%j, %j) is %j', (a, b, sign) => {
  expect(Math.sign(compareInt64(a, b))).toBe(sign);
});

test.each(['', '1.5', 'x', 2 ** 53, Number.NaN])('%j is not a 64-bit integer', (value) => {
  expect(() => compareInt64(value, '0')).toThrow(TypeError);
});

test('a document is the same after base64', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue()), (document) => {
      const text = JSON.stringify(document);
      expect(encodePayload(document)).toBe(Buffer.from(text).toString('base64'));
      expect(JSON.stringify(decodePayload(encodePayload(document)))).toBe(text);
    }),
  );
});

test('a large document is encoded', () => {
  const document = { text: 'ä'.repeat(250_000) };
  expect(decodePayload(encodePayload(document))).toEqual(document);
});
