import { hash, randomUUID } from 'node:crypto';
import { request as requestHttp } from 'node:http';
import { limits } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import { writeResource } from '../support/catalog.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { hmacOf, postTo, TestTrigger } from './requests.ts';

const { api } = await useSharedServer({ runner: false });

const spawn = { description: 'Look at {{body.title}}' };
const body = JSON.stringify({ title: 'it' });
const now = () => new Date();

describe('a request signed as Standard Webhooks say', () => {
  it('is taken, and one with another signature is not', async () => {
    const trigger = await TestTrigger.create(api, { spawn });
    expect(trigger.url).toMatch(/^http:\/\/[^/]+\/hooks\/[A-Za-z0-9_-]{32}$/);
    expect(trigger.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(await trigger.post(body)).toBe(202);
    const other = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
    const right = trigger.signed(body);
    const forged = [
      {},
      { ...right, 'webhook-signature': '' },
      { ...right, 'webhook-signature': 'v1,AAAA' },
      { ...right, 'webhook-id': 'msg_other' },
      { ...right, 'webhook-timestamp': '1' },
      trigger.signed('{"title":"that"}'),
      trigger.signed(body, 'msg_1', now(), other),
      // Of other kinds of triggers.
      { authorization: `Bearer ${trigger.secret}` },
      { 'x-hub-signature-256': `sha256=${hmacOf(body, trigger.secret)}` },
    ];
    for (const headers of forged) expect(await trigger.post(body, { headers })).toBe(401);
    expect(await trigger.deliveries()).toHaveLength(1);
  });

  it('is taken with one of several signatures, but not when it is too old or from the future', async () => {
    const trigger = await TestTrigger.create(api, { spawn });
    const right = trigger.signed(body);
    const several = { ...right, 'webhook-signature': `v1,AAAA v1a,BBBB ${right['webhook-signature']}` };
    expect(await trigger.post(body, { headers: several })).toBe(202);
    for (const minutes of [-6, 6]) {
      const at = new Date(Date.now() + minutes * 60_000);
      expect(await trigger.post(body, { headers: trigger.signed(body, randomUUID(), at) })).toBe(401);
    }
  });

  it('that is sent again with the same id is the same delivery', async () => {
    const trigger = await TestTrigger.create(api, { spawn });
    const headers = trigger.signed(body, 'msg_again');
    for (let i = 0; i < 3; i++) expect(await trigger.post(body, { headers })).toBe(202);
    await trigger.delivery('msg_again');
    expect(await trigger.deliveries()).toHaveLength(1);
  });
});

describe('other ways to authenticate', () => {
  it.each([undefined, 'X-Signature'])('an HMAC of the body in the header %s', async (signatureHeader) => {
    const trigger = await TestTrigger.create(api, { spawn, auth: 'hmac-sha256', signatureHeader });
    const name = signatureHeader ?? 'x-hub-signature-256';
    const hex = hmacOf(body, trigger.secret);
    const wrong = [
      '',
      'sha256=',
      hex.slice(2),
      `sha1=${hex}`,
      hmacOf(body, 'x'),
      hmacOf('{}', trigger.secret),
    ];
    for (const value of wrong) expect(await trigger.post(body, { headers: { [name]: value } })).toBe(401);
    expect(await trigger.post(body, { headers: trigger.signed(body) })).toBe(401);
    expect(await trigger.post(body, { headers: { [name]: hex } })).toBe(202);
    // Replayed under another id, which is not signed.
    const replayed = { [name]: `sha256=${hex.toUpperCase()}`, 'webhook-id': 'other', 'idempotency-key': 'y' };
    expect(await trigger.post(body, { headers: replayed })).toBe(202);
    await trigger.delivery(hash('sha256', body));
    expect(await trigger.deliveries()).toHaveLength(1);
  });

  it('the secret itself', async () => {
    const trigger = await TestTrigger.create(api, { spawn, auth: 'bearer' });
    const { secret } = trigger;
    for (const authorization of ['', 'Bearer', 'Bearer x', `Bearer ${secret}x`, `Bearer ${secret.slice(1)}`])
      expect(await trigger.post(body, { headers: { authorization } })).toBe(401);
    expect(await trigger.post(body, { headers: { authorization: `Bearer ${secret}` } })).toBe(202);
    await trigger.change({ signatureHeader: 'X-Gitlab-Token' });
    const status = () => trigger.post('{}', { headers: { 'x-gitlab-token': secret } });
    await until('the other header', status, (seen) => seen === 202);
    expect(await trigger.post(body, { headers: { authorization: `Bearer ${secret}` } })).toBe(401);
  });

  it('a key that the sender made; the own one counts no more', async () => {
    await writeResource(api, 'secret', 'of-the-sender', { value: 'sent by the sender' });
    const trigger = await TestTrigger.create(api, {
      spawn,
      auth: 'hmac-sha256',
      webhookSecret: { fromSecret: 'of-the-sender' },
    });
    const signed = (key: string) => ({ headers: { 'x-hub-signature-256': hmacOf(body, key) } });
    expect(await trigger.post(body, signed(trigger.secret))).toBe(401);
    expect(await trigger.post(body, signed('sent by the sender'))).toBe(202);
  });

  it('a new secret replaces the old one', async () => {
    const trigger = await TestTrigger.create(api, { spawn });
    const { secret } = await trigger.change({ rotate: true });
    expect(secret).not.toBe(trigger.secret);
    expect(await trigger.post(body)).toBe(401);
    const headers = trigger.signed(body, 'msg_new', now(), String(secret));
    expect(await trigger.post(body, { headers })).toBe(202);
    expect(await trigger.change({ maxPerHour: 5 })).not.toHaveProperty('secret');
  });
});

describe('the body of a request', () => {
  it('may have 1 MiB', async () => {
    const trigger = await TestTrigger.create(api, { spawn });
    const padded = (bytes: number) => `${'{"title":"large"'.padEnd(bytes - 1)}}`;
    expect(await trigger.post(padded(limits.triggerRequestBytes), { id: 'msg_large' })).toBe(202);
    expect(await trigger.delivery('msg_large')).toMatchObject({ state: 'DONE', bytes: 1024 * 1024 });
    // The service may close the connection while the rest is on its way.
    expect([400, 0]).toContain(await trigger.post(padded(limits.triggerRequestBytes + 1)));
    expect(await trigger.deliveries()).toHaveLength(1);
  });

  it('that never comes whole is not stored, and keeps nobody else from sending', async () => {
    const trigger = await TestTrigger.create(api, { spawn });
    const slow = Array.from({ length: 20 }, () => {
      const headers = { ...trigger.signed(body), 'content-length': String(body.length) };
      const sending = requestHttp(trigger.url, { method: 'POST', headers, agent: false });
      sending.on('error', () => {});
      sending.write(body.slice(0, 3));
      return sending;
    });
    try {
      expect(await trigger.post(body, { id: 'msg_fast' })).toBe(202);
      await trigger.delivery('msg_fast');
    } finally {
      for (const sending of slow) sending.destroy();
    }
    expect(await trigger.post(body, { id: 'msg_after' })).toBe(202);
    expect(await trigger.deliveries()).toHaveLength(2);
  });

  it('may be a form', async () => {
    const trigger = await TestTrigger.create(api, { spawn });
    const contentType = 'application/x-www-form-urlencoded; charset=utf-8';
    const { description } = await trigger.spawned('title=a+form&title=b&x=1', { contentType });
    expect(description).toContain('Look at “a form”');
  });

  it.each([
    ['not JSON', 'no json'],
    ['deeply nested', '['.repeat(100_000)],
    ['of many values', `[${'{},'.repeat(300_000)}0`],
  ])('that is %s fails without a retry', async (_what, text) => {
    const trigger = await TestTrigger.create(api, { spawn });
    const { state, reason, attempts } = await trigger.take(text);
    expect({ state, attempts }).toEqual({ state: 'FAILED', attempts: 1 });
    expect(reason).toMatch(/JSON/);
  });

  it.each(['', '7', 'null', '[{"title":"in a list"}]', '{"__proto__":{"title":"x"},"constructor":1}'])(
    'may be %j',
    async (text) => {
      const trigger = await TestTrigger.create(api, {
        spawn: { description: 'Title {{body.title}}, {{body.0.title}}, {{body.constructor.name}}.' },
      });
      const { description } = await trigger.spawned(text);
      expect(description).toMatch(text.includes('list') ? /^Title , “in a list”, \./ : /^Title , , \./);
    },
  );
});

it('an address that is not known is 404', async () => {
  expect(await postTo(`${api.url}/hooks/${'A'.repeat(32)}`, body, {})).toBe(404);
});
