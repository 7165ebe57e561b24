import { limits } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { violation } from '../support/api.ts';
import {
  deleteResource,
  newMember,
  postResource,
  readDocument,
  uniqueName,
  writeResource,
} from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { newTestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;
const yearly = { cron: '0 7 1 1 *', zone: 'Europe/Berlin' };
const long = 'x'.repeat(limits.descriptionBytes + 1);

describe('a document', () => {
  test.each<[field: string, document: Record<string, unknown>]>([
    ['payload.cron', { cron: '0 7 * *' }],
    ['payload.cron', { cron: '0 0 30 2 *' }],
    ['payload.cron', { cron: '61 * * * *' }],
    ['payload.cron', { cron: 7 }],
    ['payload.cron', { cron: '* '.repeat(200) }],
    ['payload.zone', { ...yearly, zone: 'Europe/Atlantis' }],
    ['payload.zone', { ...yearly, zone: '+02:00' }],
    ['payload.startsAt', { ...yearly, startsAt: 'tomorrow' }],
    ['payload.endsAt', { ...yearly, startsAt: '2030-01-01T00:00:00Z', endsAt: '2029-01-01T00:00:00Z' }],
    ['payload.overlap', { ...yearly, overlap: 'kill' }],
    ['payload.missed', { ...yearly, missed: 'some' }],
    ['payload.jitterSeconds', { ...yearly, jitterSeconds: limits.scheduleJitterSeconds + 1 }],
    ['payload.jitterSeconds', { ...yearly, jitterSeconds: 1.5 }],
    ['payload.paused', { ...yearly, paused: 'yes' }],
    ['payload.message', { ...yearly, agentId: { agent: ['a'] }, message: long }],
    ['payload.spawn', { ...yearly, agentId: { agent: ['a'] }, message: 'x', spawn: {} }],
    ['payload.agentId', { ...yearly, agentId: { agent: ['a'] }, spawn: {} }],
    ['payload.agentId.agent[0]', { ...yearly, agentId: { agent: ['a b'] }, message: 'x' }],
    ['payload.spawn.description', { ...yearly, spawn: { description: long } }],
    ['payload.spawn.agentId.agent[0]', { ...yearly, spawn: { agentId: { agent: ['../{n}'] } } }],
    ['payload.spawn.agentId.agent[0]', { ...yearly, spawn: { agentId: { agent: ['{m}'] } } }],
    ['payload.spawn.agentId.agent[1]', { ...yearly, spawn: { agentId: { agent: ['a', '{{n}}'] } } }],
    [
      'payload.spawn.agentId.agent[0]',
      { ...yearly, spawn: { agentId: { agent: [`${'a'.repeat(120)}-{date}`] } } },
    ],
    ['payload.spawn.agentId.agent[0]', { ...yearly, spawn: { agentId: { agent: ['a\u202e{n}'] } } }],
    ['payload.spawn.labels', { ...yearly, spawn: { labels: 'web' } }],
    ['payload.spawn.agentId.tenant', { ...yearly, spawn: { agentId: { tenant: { org: 'elsewhere' } } } }],
    [
      'payload.agentId.tenant',
      { ...yearly, agentId: { agent: ['a'], tenant: { org: 'elsewhere' } }, message: 'x' },
    ],
  ])('with a wrong %s is INVALID_ARGUMENT', async (field, document) => {
    const name = uniqueName('wrong');
    const answer = await postResource(api, 'schedule', name, document);
    expectError(answer, 'INVALID_ARGUMENT');
    expect(violation(answer)).toBe(field);
  });

  test('that says too little is stored, with a warning, and never fires', async () => {
    for (const [document, field] of [
      [{}, 'payload.cron'],
      [{ cron: '* * * * *' }, 'payload.message'],
      [{ cron: '* * * * *', message: 'x' }, 'payload.agentId'],
    ] as const) {
      const name = uniqueName('incomplete');
      const { warnings } = expectOk(await postResource(api, 'schedule', name, document)) as unknown as {
        warnings: { field: string }[];
      };
      expect(warnings.map((warning) => warning.field)).toContain(field);
      const { document: stored } = await readDocument(api, 'schedule', name);
      expect(stored).toMatchObject({ nextRuns: [], lastRun: null, pausedReason: '' });
    }
  });

  test('whose agents would all have one name is warned about', async () => {
    const spawn = { agentId: { agent: ['always'] }, description: 'x' };
    const answer = await postResource(api, 'schedule', uniqueName('same'), { ...yearly, spawn });
    expect(JSON.stringify(answer.body)).toContain('it can only fire while no agent of this name lives');
  });

  test('does not keep what the service fills in', async () => {
    const name = uniqueName('sent-back');
    await writeResource(api, 'schedule', name, { ...yearly, spawn: { description: 'x' } });
    const { document } = await readDocument(api, 'schedule', name);
    const sent = {
      ...document,
      nextRuns: ['1999-01-01T00:00:00Z'],
      lastRun: { at: 'never' },
      pausedReason: 'none',
    };
    const written = await writeResource(api, 'schedule', name, sent);
    expect(written).not.toHaveProperty('nextRuns');
    expect((await readDocument(api, 'schedule', name)).document).toMatchObject({
      ...{ lastRun: null, pausedReason: '', nextRuns: document.nextRuns },
    });
    const { body } = await api.get<{ entries: { name: string; payload: string }[] }>('/v1/catalog/schedule');
    const listed = body.entries.find((entry) => entry.name === name);
    const shown = JSON.parse(Buffer.from(listed?.payload ?? '', 'base64').toString()) as object;
    expect(shown).toMatchObject({ nextRuns: document.nextRuns });
  });

  test('fires between its first and its last time only', async () => {
    const name = uniqueName('bounded');
    const startsAt = '2098-12-31T00:00:00Z';
    const endsAt = '2100-01-01T06:00:00Z';
    await writeResource(api, 'schedule', name, { ...yearly, startsAt, endsAt, spawn: { description: 'x' } });
    expect((await readDocument(api, 'schedule', name)).document.nextRuns).toEqual([
      '2099-01-01T06:00:00.000Z',
      '2100-01-01T06:00:00.000Z',
    ]);
  });
});

describe('who may', () => {
  test('members write, run and delete their own; others only read', async () => {
    const t = await newTestTenant(api);
    const [ada, max] = [await newMember(api), await newMember(api)];
    const name = uniqueName('of-ada');
    const agentId = { workspace: t.workspace, agent: ['own'] };
    expectOk(await ada.api.post('/v1/agent/spawn', { agentId, description: 'x', model: 'rehearsal-a' }));
    const document = { ...yearly, agentId, message: 'hello' };
    await writeResource(ada.api, 'schedule', name, document);
    expectError(await postResource(max.api, 'schedule', name, document), 'PERMISSION_DENIED');
    expectError(await max.api.post('/v1/schedule/run', { name }), 'PERMISSION_DENIED');
    expectError(await deleteResource(max.api, 'schedule', name), 'PERMISSION_DENIED');
    expectOk(await max.api.post('/v1/schedule/history', { name }));
    expect(expectOk(await api.post('/v1/schedule/run', { name }))).toMatchObject({
      agentId: { account: ada.account },
    });
    expect(expectOk(await ada.api.post('/v1/schedule/run', { name }))).toMatchObject({ outcome: 'SKIPPED' });
    expectOk(await deleteResource(ada.api, 'schedule', name));
  });

  test('members name neither agents nor new agents of others', async () => {
    const [ada, max] = [await newMember(api), await newMember(api)];
    const other = { account: max.account, agent: ['x-{n}'] };
    for (const document of [
      { ...yearly, agentId: { ...other, agent: ['x'] }, message: 'x' },
      { ...yearly, spawn: { agentId: other } },
    ])
      expectError(await postResource(ada.api, 'schedule', uniqueName('x'), document), 'PERMISSION_DENIED');
  });

  test('another tenant sees nothing of it', async () => {
    const name = uniqueName('hidden');
    await writeResource(api, 'schedule', name, { ...yearly, spawn: { description: 'x' } });
    const { admin } = await newTenant(server.operator);
    for (const path of ['run', 'history']) {
      expectError(await admin.post(`/v1/schedule/${path}`, { name }), 'NOT_FOUND');
      const { tenant } = server;
      expectError(await admin.post(`/v1/schedule/${path}`, { name, tenant }), 'PERMISSION_DENIED');
    }
    expectError(await api.post('/v1/schedule/run', {}), 'INVALID_ARGUMENT', 'name');
    expectError(await api.post('/v1/schedule/history', {}), 'INVALID_ARGUMENT', 'name');
  });
});
