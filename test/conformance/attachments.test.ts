import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { finished } from 'node:stream/promises';
import { type Attachment, limits } from '@muster/sdk/contract';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { accepted } from '../support/agents.ts';
import { uploadOf } from '../support/api.ts';
import { createKey } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { gif, gifText, jpeg, png, uploadTo, webp } from '../support/images.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { newTestTenant, newWorkingTenant, type TestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

const upload = async (t: TestTenant, image: Uint8Array, path = 'a'): Promise<Attachment> =>
  expectOk(await uploadTo(t.api, t.id(path), image, ''));

const large = (name: string, bytes: number = limits.attachmentBytes): Buffer =>
  Buffer.concat([png(name), Buffer.alloc(bytes)], bytes);

const read = (t: TestTenant, attachmentId: string, by = t.api, path = 'a') =>
  by.post<{ content: string }>('/v1/agent/attachment', { agentId: t.id(path), attachmentId });

describe('an image', () => {
  test.each([
    ['image/png', png()],
    ['image/jpeg', jpeg],
    ['image/webp', webp],
    ['image/gif', gif],
  ])('of type %s is stored once, and read as it was', async (mediaType, image) => {
    const { t } = await newWorkingTenant(api);
    const first = expectOk(await uploadTo(t.api, t.id('a'), image, `${mediaType}; q=1`));
    expect(first).toMatchObject({ mediaType, bytes: image.length });
    expect(await upload(t, image)).toEqual(first);
    const { body } = await read(t, first.attachmentId);
    expect(body).toEqual({ ...first, content: image.toString('base64') });
  });

  test('of another type, of a wrong content type, that is empty or too large is refused', async () => {
    const { t } = await newWorkingTenant(api);
    const refused = async (image: Uint8Array, type: string, field: string) =>
      expectError(await uploadTo(t.api, t.id('a'), image, type), 'INVALID_ARGUMENT', field);
    await refused(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'), 'image/svg+xml', 'body');
    await refused(Buffer.from('{}'), 'application/json', 'body');
    await refused(Buffer.alloc(0), 'image/png', 'body');
    await refused(png(), 'image/jpeg', 'Content-Type');
    await refused(png(), 'application/json', 'Content-Type');
    expect(await upload(t, large('most'))).toMatchObject({ bytes: limits.attachmentBytes });
    await refused(large('too large', limits.attachmentBytes + 1), 'image/png', 'body');
    const query = `agent=a&workspace=${t.workspace}`;
    const streamed = await fetch(`${api.url}/v1/agent/attachments?${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${api.key}`, 'content-type': 'image/png' },
      // Without a length.
      body: new Blob([new Uint8Array(large('too large', limits.attachmentBytes + 1))]).stream(),
      duplex: 'half',
    } as RequestInit);
    expect(streamed.status).toBe(400);
  });

  test('that is too large is refused without an error of the connection, however late its bytes come', async () => {
    const { t } = await newWorkingTenant(api);
    const sending = request(`${t.api.url}/v1/agent/attachments?agent=a&workspace=${t.workspace}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${t.api.key}`,
        'content-type': 'image/png',
        'content-length': limits.attachmentBytes + 1,
      },
    });
    sending.flushHeaders();
    const [response] = (await once(sending, 'response')) as [IncomingMessage];
    expect(response.statusCode).toBe(400);
    expect(await text(response)).toContain('body');
    sending.end(large('too large', limits.attachmentBytes + 1));
    await finished(sending);
  });

  test('comes from others: a run may not upload for its own agent, but for those below it', async () => {
    const { t, run } = await newWorkingTenant(api);
    const self = api.as(run.token);
    expectError(await uploadTo(self, t.id('a'), png()), 'PERMISSION_DENIED');
    await t.spawn('a/b');
    expectOk(await uploadTo(self, t.id('a/b'), png()));
  });

  test('is read by its id', async () => {
    const { t } = await newWorkingTenant(api);
    for (const attachmentId of ['', undefined])
      expectError(
        await t.send('agent/attachment', 'a', { attachmentId }),
        'INVALID_ARGUMENT',
        'attachmentId',
      );
    expectError(await read(t, 'none'), 'NOT_FOUND');
  });

  test('needs an agent that exists and has not ended', async () => {
    const { t } = await newWorkingTenant(api);
    expectError(await uploadTo(t.api, { agent: [] }, png()), 'INVALID_ARGUMENT', 'agentId.agent');
    expectError(await uploadTo(t.api, t.id('b'), png()), 'NOT_FOUND');
    await t.kill('a');
    expectError(await uploadTo(t.api, t.id('a'), png()), 'NOT_FOUND');
  });
});

describe('a message', () => {
  test('has up to 10 images, which its run gets; they stay in the timeline, and a retried batch has them', async () => {
    const { t, run } = await newWorkingTenant(api);
    const ids: string[] = [];
    for (let i = 0; i < 10; i += 1) ids.push((await upload(t, png(`image ${i}`))).attachmentId);
    const eleven = [...ids, (await upload(t, png('one more'))).attachmentId];
    expectError(
      await t.add({ description: 'x', attachmentIds: eleven }),
      'INVALID_ARGUMENT',
      'attachmentIds',
    );
    // Without a text.
    await t.queue('a', { attachmentIds: ids });
    const steering = await t.queue('a', { description: 'look', attachmentIds: ids.slice(0, 1), steer: true });
    const [steer] = accepted('poll', await t.runner.poll()).steers;
    expect(steer).toMatchObject({ followUpId: steering, attachmentIds: ids.slice(0, 1) });
    expect((await t.status('a')).followUps.map(({ attachmentIds }) => attachmentIds.length)).toEqual([10, 1]);
    await t.report(run, { steers: [{ followUpId: steering, sequence: steer?.sequence, taken: true }] });
    await t.end(run, 'HANDED_BACK');
    const again = await t.claim('a');
    expect(again.messages.map(({ attachmentIds }) => attachmentIds)).toEqual([[], ids.slice(0, 1)]);
    await t.end(again);
    const next = await t.claim('a');
    expect(next.messages).toMatchObject([{ text: '', attachmentIds: ids }]);
    const held = { runnerId: t.runner.runnerId, agentKey: next.agentKey, runId: next.runId };
    const runner = t.api.as(t.runner.key);
    const load = (more: object) => runner.post('/v1/runner/attachment', { ...held, ...more });
    const content = png('image 3').toString('base64');
    expect((await load({ attachmentId: ids[3] })).body).toMatchObject({ mediaType: 'image/png', content });
    expectError(await load({ attachmentId: 'x' }), 'NOT_FOUND');
    expectError(await load({ attachmentId: ids[3], runId: 1 }), 'ABORTED');
    const delivered = await t.timeline('a', 'FOLLOW_UP_QUEUED', 'FOLLOW_UP_DELIVERED');
    expect(delivered.map(({ data }) => (data.attachmentIds as string[]).length)).toEqual([10, 1, 1, 10]);
  });

  test('names only images of its own agent; the error says which is not there', async () => {
    const { t } = await newWorkingTenant(api);
    await t.spawn('b');
    const own = (await upload(t, png())).attachmentId;
    const other = (await upload(t, png('b'), 'b')).attachmentId;
    const answer = await t.add({ description: 'x', attachmentIds: [own, other] });
    expectError(answer, 'INVALID_ARGUMENT', 'attachmentIds[1]');
    expect(JSON.stringify(answer.body)).toContain(`attachment \\"${other}\\" not found`);
    expectError(await read(t, other), 'NOT_FOUND');
  });

  test('images are part of its content, and a known message is answered first', async () => {
    const { t } = await newWorkingTenant(api);
    const { attachmentId } = await upload(t, png());
    const message = { followUpId: 'mine', description: 'x', attachmentIds: [attachmentId] };
    await t.queue('a', message);
    await t.queue('a', { ...message, attachmentIds: [attachmentId, attachmentId] });
    expectError(await t.add({ ...message, attachmentIds: ['gone'] }), 'ALREADY_EXISTS');
    expectError(await t.add({ ...message, attachmentIds: [] }), 'ALREADY_EXISTS');
    expect(await t.followUpIds('a')).toEqual(['mine']);
  });
});

test('an agent has at most 50 MiB of images that no run has got', async () => {
  const { t, run } = await newWorkingTenant(api);
  const first = await upload(t, png('first'));
  const database = new pg.Client({ connectionString: api.databaseUrl });
  await database.connect();
  await database.query(`UPDATE attachments SET bytes = $1 WHERE id = $2`, [
    limits.undeliveredAttachmentBytes,
    first.attachmentId,
  ]);
  await database.end();
  expectError(await uploadTo(t.api, t.id('a'), png()), 'RESOURCE_EXHAUSTED');
  // The same image again is not another one.
  expect((await upload(t, png('first'))).attachmentId).toBe(first.attachmentId);
  const held = { runnerId: t.runner.runnerId, agentKey: run.agentKey, runId: run.runId };
  const runner = t.api.as(t.runner.key);
  expectOk(await runner.post('/v1/runner/attachment', { ...held, attachmentId: first.attachmentId }));
  await upload(t, png());
});

test('the runner of a live run saves images of tools, which are kept as if a run had got them', async () => {
  const { t, run } = await newWorkingTenant(api);
  const save = (image: Buffer) => t.runner.saveAttachment(run, image);
  const uploaded = await upload(t, png('both'));
  expect(expectOk(await save(png('both')))).toEqual(uploaded);
  const saved = expectOk(await save(large('tool')));
  expect(saved).toMatchObject({ mediaType: 'image/png', bytes: limits.attachmentBytes });
  expect(expectOk(await read(t, saved.attachmentId)).content).toBe(large('tool').toString('base64'));
  const database = new pg.Client({ connectionString: api.databaseUrl });
  await database.connect();
  const ids = [uploaded.attachmentId, saved.attachmentId];
  const { rows } = await database.query(
    'SELECT delivered_at IS NOT NULL AS kept FROM attachments WHERE id = ANY ($1)',
    [ids],
  );
  await database.end();
  expect(rows).toEqual([{ kept: true }, { kept: true }]);
  expectError(await save(Buffer.from('<svg/>')), 'INVALID_ARGUMENT', 'body');
  expectError(await save(Buffer.alloc(0)), 'INVALID_ARGUMENT', 'body');
  expectError(await save(large('x', limits.attachmentBytes + 1)), 'INVALID_ARGUMENT');
  expectError(await t.runner.saveAttachment({ ...run, runId: 2 }, png()), 'ABORTED');
  const member = uploadOf('/v1/runner/attachments', {
    ...{ runnerId: t.runner.runnerId, agentKey: run.agentKey, runId: run.runId },
    content: png(),
  });
  expectError(await t.api.post(member.path, member.body, member.headers), 'PERMISSION_DENIED');
  await t.end(run);
  expectError(await save(png()), 'ABORTED');
});

test('who may read an agent may read its images, and who may command it may upload them', async () => {
  const { t } = await newWorkingTenant(api);
  const { attachmentId } = await upload(t, png());
  const { api: viewer } = await createKey(api, { role: 'viewer', account: 'vic' });
  const { api: member } = await createKey(api, { role: 'member', account: 'mia' });
  const { admin: foreign } = await newTenant(server.operator);
  const id = { ...t.id('a'), account: 'admin' };
  const readBy = (by: typeof api) => by.post('/v1/agent/attachment', { agentId: id, attachmentId });
  expectOk(await readBy(viewer));
  const query = `agent=a&workspace=${t.workspace}&account=admin`;
  const uploadBy = (by: typeof api) =>
    by.post(`/v1/agent/attachments?${query}`, gifText, { 'content-type': 'image/gif' });
  for (const by of [viewer, member]) expectError(await uploadBy(by), 'PERMISSION_DENIED');
  for (const answer of [await readBy(foreign), await uploadBy(foreign)])
    expect([403, 404]).toContain(answer.status);
  expectError(await uploadBy(api.as('mst_nobody.nothing')), 'UNAUTHENTICATED');
});

test('a large body is read only from a caller that may send it', async () => {
  const t = await newTestTenant(api);
  await t.spawn('a');
  const { api: viewer } = await createKey(api, { role: 'viewer', account: 'vic' });
  expectError(await uploadTo(viewer, t.id('a'), large('image')), 'PERMISSION_DENIED');
});
