import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeResource } from '../support/catalog.ts';
import { FakeGithub } from './github.ts';
import { longTestMs } from './patience.ts';
import { Scenario } from './scenario.ts';
import { answerToDelivery, connectWebhook, signatureOf } from './sent-delivery.ts';

let scenario: Scenario;

beforeAll(async () => {
  scenario = await Scenario.startWithoutRunner(await FakeGithub.start());
  const { webhookUrl, signingKey } = await connectWebhook(scenario);
  const body = '{"zen":"Speak like a human."}';
  await answerToDelivery(webhookUrl, body, { 'x-hub-signature-256': signatureOf(body, signingKey) });
}, longTestMs);
afterAll(() => scenario.close());

describe('the test of an integration', () => {
  it(
    'says what is there and what is missing',
    async () => {
      const { body } = await scenario.api.post<{ account: string; checks: { name: string; ok: boolean }[] }>(
        '/v1/integration/test',
        { name: 'host' },
      );
      expect(body.account).not.toBe('');
      expect(body.checks.map(({ name }) => name)).toEqual(expect.arrayContaining(['credential', 'webhook']));
      expect(body.checks.filter(({ ok }) => !ok)).toEqual([]);
    },
    longTestMs,
  );

  it(
    'names a missing secret, and says what to do about a token that the host does not accept',
    async () => {
      await writeResource(scenario.api, 'integration', 'broken', {
        type: 'github',
        url: scenario.host.url,
        token: { fromSecret: 'nowhere' },
      });
      const { body } = await scenario.api.post<{ checks: { name: string; ok: boolean; advice: string }[] }>(
        '/v1/integration/test',
        { name: 'broken' },
      );
      expect(body.checks[0]).toMatchObject({ name: 'credential', ok: false });
      expect(body.checks[0]?.advice).toContain('nowhere');
      await writeResource(scenario.api, 'secret', 'nowhere', { value: 'a-token-that-was-revoked' });
      const tested = await scenario.api.post<typeof body>('/v1/integration/test', { name: 'broken' });
      expect(tested.body.checks[0]).toMatchObject({ name: 'credential', ok: false });
      expect(tested.body.checks[0]?.advice).toMatch(/^GET \/\S+: 401 \b.* create a new one/);
    },
    longTestMs,
  );

  it(
    'calls no host in an internal network that the operator has not listed',
    async () => {
      await writeResource(scenario.api, 'integration', 'inner', {
        type: 'github',
        url: 'http://127.0.0.1:9',
        token: { fromSecret: 'host-token' },
      });
      const { body } = await scenario.api.post<{ checks: { ok: boolean; advice: string }[] }>(
        '/v1/integration/test',
        {
          name: 'inner',
        },
      );
      expect(body.checks[0]?.ok).toBe(false);
      expect(body.checks[0]?.advice).toMatch(/internal network/);
    },
    longTestMs,
  );
});
