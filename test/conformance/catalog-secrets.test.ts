import { createHash } from 'node:crypto';
import type { AgentStatus } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { type Answer, agent } from '../support/api.ts';
import { until } from '../support/async.ts';
import {
  createKey,
  createShareLink,
  decode,
  postResource,
  readDocument,
  readResource,
  secretOfLink,
  uniqueName,
  type WrittenResource,
} from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { history, write } from './catalog-requests.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

describe('one-time secrets', () => {
  const secretKinds = [
    ['token', 'key', {}],
    ['share-link', 'url', { agentId: { agent: ['somebody'] } }],
    ['integration', 'signingKey', { type: 'codehost' }],
    ['trigger', 'secret', { spawn: {} }],
    ['notification', 'signingSecret', {}],
  ] as const;

  test.each(secretKinds)(
    'the reply to the write that creates a %s has its raw %s',
    async (kind, field, document) => {
      const { payload } = await write(api, kind, uniqueName('once'), document);
      expect(decode(payload)[field]).toEqual(expect.stringMatching(/^\S{20,}$/));
    },
  );

  test.each(secretKinds)('no later reply about a %s has its %s', async (kind, field, document) => {
    const name = uniqueName('once');
    const secret = String(decode((await write(api, kind, name, document)).payload)[field]);
    const later: Answer<unknown>[] = [
      await readResource(api, kind, name),
      await postResource(api, kind, name, document),
      await postResource(api, kind, name, { note: 1 }, { updateMask: 'note' }),
      await api.get(`/v1/catalog/${kind}/${name}/history`),
      await api.get(`/v1/catalog/${kind}?pageSize=1000`),
      await api.del(`/v1/catalog/${kind}/${name}`),
    ];
    const raw = kind === 'share-link' ? secretOfLink(secret) : secret;
    const digest = createHash('sha256').update(raw).digest();
    const tail = createHash('sha256')
      .update(raw.slice(raw.indexOf('.') + 1))
      .digest();
    const needles = [raw, raw.slice(raw.indexOf('.') + 1), secret].concat(
      [digest, tail].flatMap((d) => [d.toString('hex'), d.toString('base64'), d.toString('base64url')]),
    );
    for (const answer of later) {
      expectOk(answer);
      const text = everything(answer.body);
      for (const needle of needles) expect(text).not.toContain(needle);
      expect(text).not.toContain(`"${field}"`);
      expect(text).not.toMatch(/nonce|sha256|hash/i);
    }
  });

  /** The reply as text, its payloads decoded too. */
  function everything(value: unknown): string {
    const texts = [JSON.stringify(value)];
    for (const [, payload] of JSON.stringify(value).matchAll(/"payload":"([^"]*)"/g)) {
      texts.push(Buffer.from(payload ?? '', 'base64').toString());
    }
    return texts.join('\n');
  }

  test.each(secretKinds)('rotate: true on a %s returns a new %s, once', async (kind, field, document) => {
    const name = uniqueName('rotate');
    const secretOf = ({ payload }: WrittenResource) => decode(payload)[field];
    const first = secretOf(await write(api, kind, name, document));
    const second = secretOf(await write(api, kind, name, { ...document, rotate: true }));
    const third = secretOf(await write(api, kind, name, { rotate: true }, { updateMask: 'rotate' }));
    expect(new Set([first, second, third]).size).toBe(3);
    for (const secret of [first, second, third]) expect(secret).toEqual(expect.stringMatching(/^\S{20,}$/));
    expect(secretOf(await write(api, kind, name, { note: 1 }, { updateMask: 'note' }))).toBeUndefined();
    expect(secretOf(await write(api, kind, name, { ...document, rotate: false }))).toBeUndefined();
    expect((await readDocument(api, kind, name)).document).not.toHaveProperty('rotate', true);
  });

  test.each(secretKinds)(
    'a %s that is deleted and created again has a new %s',
    async (kind, field, document) => {
      const name = uniqueName('anew');
      const first = decode((await write(api, kind, name, document)).payload)[field];
      expectOk(await api.del(`/v1/catalog/${kind}/${name}`));
      const second = decode((await write(api, kind, name, document)).payload)[field];
      expect(second).toEqual(expect.stringMatching(/^\S{20,}$/));
      expect(second).not.toBe(first);
    },
  );

  test.each(secretKinds)(
    'the raw secret is not stored, even when the reply of a %s is written back with its %s',
    async (kind, field, document) => {
      const name = uniqueName('back');
      const reply = decode((await write(api, kind, name, document)).payload);
      const secret = String(reply[field]);
      await write(api, kind, name, reply);
      await write(api, kind, name, reply, { updateMask: `${field},note` });
      const seen =
        everything((await readResource(api, kind, name)).body) + everything(await history(api, kind, name));
      expect(seen).not.toContain(secret);
      if (kind === 'share-link') expect(seen).not.toContain(secretOfLink(secret));
    },
  );

  test('a token is an API key of the form mst_<key_id>.<secret>', async () => {
    const { api: made, key } = await createKey(api, { role: 'viewer', account: 'ann' });
    expect(key).toMatch(/^mst_[A-Za-z0-9-]+\.[A-Za-z0-9_-]{27,}$/);
    expect(expectOk(await made.get('/v1/whoami'))).toMatchObject({
      keyId: key.slice('mst_'.length, key.indexOf('.')),
      role: 'viewer',
      account: 'ann',
      expiresAt: null,
    });
  });

  test('a rotated token works with its new key, and its old key stops', async () => {
    const { name, api: old } = await createKey(api, { role: 'viewer' });
    expectOk(await old.get('/v1/whoami'));
    const rotated = await write(api, 'token', name, { role: 'viewer', rotate: true });
    const fresh = api.as(String(decode(rotated.payload).key));
    expectOk(await fresh.get('/v1/whoami'));
    const refused = await until(
      'the old key refused',
      () => old.get('/v1/whoami'),
      ({ status }) => status !== 200,
    );
    expectError(refused, 'UNAUTHENTICATED');
    expectOk(await fresh.get('/v1/whoami'));
  });

  test('a token that is written again without rotate keeps its key', async () => {
    const { name, api: made } = await createKey(api, { role: 'viewer' });
    await write(api, 'token', name, { role: 'viewer', note: 'again' });
    expectOk(await made.get('/v1/whoami'));
    await write(api, 'token', name, { role: 'member' }, { updateMask: 'role' });
    await until(
      'the new role',
      () => made.get('/v1/whoami'),
      ({ body }) => body.role === 'member',
    );
  });

  test('a share link is a URL with the secret in its fragment, and the secret reads the agent', async () => {
    const name = uniqueName('shared');
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent(name), description: 'for all to see' }));
    const { url, api: visitor } = await createShareLink(api, agent(name));
    expect(new URL(url).origin).toBe(new URL(server.url).origin);
    expect(new URL(url).search).toBe('');
    expect(secretOfLink(url).length).toBeGreaterThanOrEqual(27);
    expect(url.split('#')[0]).not.toContain(secretOfLink(url));
    const { agentId } = expectOk(await api.post<AgentStatus>('/v1/agent/status', { agentId: agent(name) }));
    const seen = expectOk(await visitor.post<AgentStatus>('/v1/agent/status', { agentId }));
    expect(seen.description).toBe('for all to see');
  });

  test('integrations of two names have two signing keys', async () => {
    const [one, two] = [
      await write(api, 'integration', uniqueName('i'), {}),
      await write(api, 'integration', uniqueName('i'), {}),
    ];
    expect(decode(one.payload).signingKey).not.toBe(decode(two.payload).signingKey);
  });
});
