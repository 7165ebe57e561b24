import type { WriteRequest } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { isRefusal } from '../../domain/refusal.ts';
import type { Principal } from '../access/principal.ts';
import { checkChange, checkWrite } from './check-write.ts';
import { decideWrite, refuseDelete, withServerFields } from './decide-write.ts';
import { type Document, encodePayload } from './document.ts';

const caller = (role: Principal['role'], account = 'ada'): Principal => ({
  tenant: { id: 1, provider: 'PROVIDER_CODEHOST_APP', org: 'acme' },
  ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
  account,
  keyId: 'k',
  role,
  expiresAt: null,
  pool: '',
  token: '',
  agent: null,
});
const admin = caller('admin');
const member = caller('member');

const never = { generation: 0, document: null };
const stored = (document: Document, generation = 3) => ({ generation, document });

function write(
  by: Principal,
  kind: string,
  payload: Document,
  { before = never, ...request }: WriteRequest & { before?: typeof never | ReturnType<typeof stored> } = {},
) {
  const checked = checkWrite(by, { kind, name: 'one' }, { payload: encodePayload(payload), ...request });
  return isRefusal(checked) ? checked : decideWrite(by, checked, before);
}

describe('a write', () => {
  test('replaces the document without a mask, and leaves out what the server sets', () => {
    const before = stored({ name: 'one', repos: ['old'], pool: 'gpu' });
    expect(write(admin, 'workspace', { name: 'x', repos: ['a'], createdBy: 'me' }, { before })).toEqual({
      repos: ['a'],
    });
  });

  test('changes only the fields of its mask', () => {
    const before = stored({ repos: ['old'], pool: 'gpu' });
    const request = { before, updateMask: 'repos' };
    expect(write(admin, 'workspace', { repos: ['a'], pool: 'other' }, request)).toEqual({
      repos: ['a'],
      pool: 'gpu',
    });
  });

  test('with a mask needs a resource to change, unless it says that there is none', () => {
    const refused = { status: 'NOT_FOUND', message: 'workspace "one" not found' };
    expect(write(admin, 'workspace', { pool: 'a' }, { updateMask: 'pool' })).toMatchObject(refused);
    expect(write(admin, 'workspace', { pool: 'a' }, { updateMask: 'pool', ifGenerationMatch: '0' })).toEqual({
      pool: 'a',
    });
  });

  test.each([
    ['2', 'ifGenerationMatch is 2, the current generation is 3'],
    ['0', 'ifGenerationMatch is 0, the current generation is 3'],
  ])('is refused if it expects generation %s of generation 3', (ifGenerationMatch, message) => {
    const before = stored({ repos: [] });
    expect(write(admin, 'workspace', {}, { before, ifGenerationMatch })).toMatchObject({
      status: 'FAILED_PRECONDITION',
      message,
    });
    expect(write(admin, 'workspace', {}, { before, ifGenerationMatch: '3' })).toEqual({});
  });

  test('of a deleted resource expects generation 0', () => {
    const before = { generation: 4, document: null };
    expect(write(admin, 'workspace', {}, { before, ifGenerationMatch: '0' })).toEqual({});
    expect(write(admin, 'workspace', {}, { before, ifGenerationMatch: '4' })).toMatchObject({
      refused: true,
    });
  });

  test('of a persona by a member needs the persona to be its own', () => {
    const of = (account: string) => stored({ createdBy: `codehost_oauth/${account}` });
    expect(write(member, 'persona', {}, { before: of('ada') })).toEqual({});
    expect(write(member, 'persona', {}, { before: of('bob') })).toMatchObject({
      status: 'PERMISSION_DENIED',
    });
    expect(write(admin, 'persona', {}, { before: of('bob') })).toEqual({});
  });

  test('of a token fills in the role and the account of its creator', () => {
    expect(write(member, 'token', {})).toEqual({
      role: 'member',
      ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
      account: 'ada',
    });
    expect(write(admin, 'token', { role: 'runner' })).toMatchObject({ pool: 'default' });
  });

  test('of a token gives no role above the own one, and no account but the own one to a member', () => {
    expect(write(member, 'token', { role: 'admin' })).toMatchObject({ status: 'PERMISSION_DENIED' });
    expect(write(member, 'token', { account: 'bob' })).toMatchObject({ status: 'PERMISSION_DENIED' });
    expect(write(admin, 'token', { role: 'agent' })).toMatchObject({ status: 'INVALID_ARGUMENT' });
  });

  test('of a share link shows an agent of the same tenant, and for a member only an own one', () => {
    const agentId = { agent: ['web'] };
    expect(write(member, 'share-link', { agentId })).toMatchObject({
      agentId: { account: 'ada', agent: ['web'], tenant: { org: 'acme' } },
    });
    const foreign = { agentId: { ...agentId, tenant: { org: 'other' } } };
    expect(write(member, 'share-link', foreign)).toMatchObject({ status: 'INVALID_ARGUMENT' });
    const others = { agentId: { ...agentId, account: 'bob' } };
    expect(write(member, 'share-link', others)).toMatchObject({ status: 'PERMISSION_DENIED' });
    expect(write(admin, 'share-link', others)).toMatchObject({ agentId: { account: 'bob' } });
  });

  test('must agree with its path, and an operator says why', () => {
    const ref = { kind: 'workspace', name: 'other' };
    expect(write(admin, 'workspace', {}, { ref })).toMatchObject({
      message: 'ref.name: differs from the path, which says "one"; got "other"',
    });
    expect(write(caller('operator'), 'workspace', {})).toMatchObject({
      message: "justification: is required for an operator's write",
    });
    expect(write(caller('operator'), 'workspace', {}, { justification: 'support' })).toEqual({});
  });
});

test('the server sets who created a resource once, and who updated it each time', () => {
  const checked = checkWrite(admin, { kind: 'workspace', name: 'one' }, {});
  if (isRefusal(checked)) throw new Error(checked.message);
  const before = stored({ createdAt: 'then', createdBy: 'bob' });
  expect(withServerFields(admin, checked, before, { pool: 'a' }, 'now')).toEqual({
    pool: 'a',
    name: 'one',
    createdAt: 'then',
    createdBy: 'bob',
    updatedAt: 'now',
    updatedBy: 'codehost_oauth/ada',
  });
  const large = { text: 'x'.repeat(2 * 1024 * 1024) };
  expect(withServerFields(admin, checked, never, large, 'now')).toMatchObject({ status: 'INVALID_ARGUMENT' });
});

test('a delete needs a stored resource: a builtin one stays', () => {
  const change = (kind: string, name: string) => {
    const checked = checkChange(admin, undefined, { kind, name }, undefined);
    if (isRefusal(checked)) throw new Error(checked.message);
    return checked;
  };
  expect(refuseDelete(admin, change('workspace', 'one'), stored({}))).toBeNull();
  expect(refuseDelete(admin, change('workspace', 'one'), never)).toMatchObject({ status: 'NOT_FOUND' });
  expect(refuseDelete(admin, change('pool', 'default'), never)).toMatchObject({
    status: 'FAILED_PRECONDITION',
  });
});

describe('an error names the field, what was received and what is accepted', () => {
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const raw = (request: WriteRequest, kind = 'workspace') =>
    checkWrite(admin, { kind, name: 'one' }, request);

  test.each<[WriteRequest, string, string?]>([
    [{ payload: 'a*b' }, 'payload: must be base64; got the character "*"'],
    [{ payload: 'aaaaa' }, 'payload: must be base64; got 5 characters, which are incomplete'],
    [{ payload: base64('{') }, 'payload: must be base64 of a JSON object; got text that is not JSON'],
    [{ payload: base64('[]') }, 'payload: must be base64 of a JSON object; got a list'],
    [{ payload: '/w==' }, 'payload: must be base64 of a JSON object; got bytes that are not UTF-8'],
    [{ updateMask: 'a,,b' }, 'updateMask: must be paths joined by commas, such as a.b,c; got "a,,b"'],
    [{ updateMask: '*,a' }, 'updateMask: must be * alone, or name fields; got "*,a"'],
    [{ updateMask: 'a.__proto__' }, 'updateMask: must not name __proto__; got "a.__proto__"'],
    [{ ifGenerationMatch: '-1' }, 'ifGenerationMatch: must be 0 or more; got -1'],
    [{ payload: base64('{"rotate":"yes"}') }, 'payload.rotate: must be a boolean; got "yes"', 'token'],
    [
      { payload: base64('{"value":7}') },
      'payload.value: must be a text of 1 to 65536 bytes; got a number',
      'secret',
    ],
    [
      { payload: base64('{"value":""}') },
      'payload.value: must be a text of 1 to 65536 bytes; got 0',
      'secret',
    ],
  ])('%j', (request, message, kind) => expect(raw(request, kind)).toMatchObject({ message }));

  test.each([
    [{ a: 'x' }, {}, 'updateMask: "a.b": "a" is a string, not an object, in the payload'],
    [{}, { a: [1] }, 'updateMask: "a.b": "a" is a list, not an object, in the stored document'],
  ])('a mask that leads through %j, %j', (payload, before, message) => {
    const request = { updateMask: 'a.b', before: stored(before) };
    expect(write(admin, 'workspace', payload, request)).toMatchObject({ message });
  });

  test('of a kind, a name and a role', () => {
    expect(raw({}, 'zoo')).toMatchObject({ message: expect.stringMatching(/^ref\.kind: .*; got "zoo"$/) });
    expect(checkWrite(admin, { kind: 'pool', name: 'a b' }, {})).toMatchObject({
      message: expect.stringMatching(/^ref\.name: must be 1 to 128 .*; got "a b"$/),
    });
    expect(write(admin, 'token', { role: 'agent' })).toMatchObject({
      message: 'payload.role: must be one of viewer, member, admin, operator, runner, metrics; got "agent"',
    });
  });
});
