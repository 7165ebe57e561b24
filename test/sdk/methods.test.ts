import { MusterClient, NotFoundError } from '@muster/sdk';
import { routes } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { uniqueName } from '../support/catalog.ts';
import { png } from '../support/images.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, newTestTenant } from '../support/test-tenant.ts';
import { testAccessMethods } from './access-methods.ts';
import { collect, testCodeHostMethods } from './code-host-methods.ts';
import { testMemberMethods } from './member-methods.ts';
import { testNotificationMethods } from './notification-methods.ts';
import { testSessionMethods } from './session-methods.ts';
import { testSignInMethods } from './sign-in-methods.ts';
import { testTriggerMethods } from './trigger-methods.ts';

const server = await useSharedServer({ runner: false });
const testTenant = await newTestTenant(server.api);
/** The routes that the client called; the last test expects all but the runner protocol. */
const sent = new Set<string>();

const recordingFetch: typeof fetch = (input, init) => {
  const { pathname } = new URL(String(input));
  sent.add(`${init?.method} ${pathname}`);
  return fetch(input, init);
};

const clientOf = (apiKey: string) =>
  new MusterClient({
    url: `${server.url}/`,
    apiKey,
    fetch: recordingFetch,
    onIgnoredFields: (operation, fields) => expect.fail(`${operation} ignores ${fields}`),
  });

const client = clientOf(server.key);
const name = (path: string) => `${testTenant.workspace}:${path}`;

describe('sessions', () => testSessionMethods(server, client, recordingFetch));

describe('agents', () => {
  test('whoami', async () => {
    expect(await client.whoami()).toMatchObject({ role: 'admin' });
  });

  test('service', async () => {
    const { backends } = await client.service();
    expect(backends.map(({ backend }) => backend)).toEqual(['BACKEND_A', 'BACKEND_B']);
  });

  test('spawn with all fields, and with none', async () => {
    const spawned = await client.spawn({
      path: name('worker'),
      description: 'work',
      model: 'rehearsal-a',
      outputSchema: { type: 'object' },
      tasks: [{ id: 'first', subject: 'First' }],
    });
    expect(spawned).toMatchObject({
      phase: 'PHASE_PENDING',
      agentId: { agent: ['worker'], workspace: testTenant.workspace },
    });
    expect(await client.status(spawned.agentId)).toMatchObject({
      description: 'work',
      outputSchema: '{"type":"object"}',
      tasks: [{ id: 'first' }],
    });
    const named = await client.spawn({ workspace: testTenant.workspace, model: 'rehearsal-a' });
    expect(named.agentId.agent).toHaveLength(1);
    await client.kill(named.agentId);
  });

  test('two spawns with the same idempotency key create one agent', async () => {
    const spawn = { workspace: testTenant.workspace, description: 'once', model: 'rehearsal-a' };
    const idempotencyKey = uniqueName('key');
    const first = await client.spawn(spawn, { idempotencyKey });
    expect(await client.spawn(spawn, { idempotencyKey })).toEqual(first);
    expect((await client.spawn(spawn)).agentId).not.toEqual(first.agentId);
  });

  test('attachments.upload and attachments.read', async () => {
    const { agentId } = await client.spawn({ path: name('pictured'), model: 'rehearsal-a' });
    const { attachmentId } = await client.attachments.upload(agentId, png());
    expect(
      await client.attachments.upload(name('pictured'), new Blob([new Uint8Array(png())])),
    ).toMatchObject({
      attachmentId,
    });
    await client.queue(agentId, { description: 'look', attachmentIds: [attachmentId] });
    expect(await client.attachments.read(agentId, attachmentId)).toMatchObject({
      mediaType: 'image/png',
      content: png().toString('base64'),
    });
  });

  test('queue, listFollowUps, followUp, orderQueue, removeFollowUp, clearFollowUps', async () => {
    await client.spawn({ path: name('inbox'), model: 'rehearsal-a' });
    await testTenant.start('inbox');
    const { followUpId } = await client.queue(name('inbox'), 'read me');
    await client.queue(['inbox'], {
      followUpId: 'mine',
      description: 'later',
      deliverAt: new Date(inAnHour()),
    });
    expect((await client.status('inbox')).followUps).toMatchObject([
      { followUpId, description: 'read me', state: 'QUEUED' },
      { followUpId: 'mine', state: 'DEFERRED' },
    ]);
    await client.queue(name('inbox'), {
      followUpId: 'mine',
      description: 'much later',
      deliverAt: inAnHour(),
      replace: true,
    });
    const { followUps } = await client.listFollowUps(name('inbox'), { pageSize: 1 });
    expect(followUps).toMatchObject([{ followUpId, truncated: false }]);
    expect(await client.label(name('inbox'), { team: 'web' })).toEqual({ labels: { team: 'web' } });
    const texts = [];
    for await (const { description } of client.followUps(name('inbox'))) texts.push(description);
    expect(texts).toEqual(['read me', 'much later']);
    expect(await client.orderQueue(name('inbox'), [followUpId])).toEqual({ followUpIds: [followUpId] });
    expect(await client.removeFollowUp(name('inbox'), 'mine')).toEqual({ removed: true });
    expect(await client.followUp(name('inbox'), 'mine')).toMatchObject({ state: 'REMOVED', answered: true });
    expect(await client.clearFollowUps(name('inbox'))).toEqual({ cleared: 1 });
  });

  test('stopTurn, wait, waitMany, kill', async () => {
    await client.spawn({ path: name('turning'), model: 'rehearsal-a' });
    const claim = await testTenant.start('turning');
    const waiting = client.wait(name('turning'));
    const waitingForOne = client.waitMany([name('worker'), name('turning')]);
    const { runCount } = await client.status(name('turning'));
    expect(await client.stopTurn(name('turning'), { runId: runCount })).toEqual({});
    await testTenant.end(claim, 'INTERRUPTED');
    expect(await waiting).toMatchObject({ phase: 'PHASE_WAITING_FOR_INPUT', phaseReason: 'INTERRUPTED' });
    expect(await waitingForOne).toMatchObject({ agentId: { agent: ['turning'] } });
    expect(await client.wait(name('turning'), { runId: runCount })).toMatchObject({ timedOut: false });
    await client.queue(name('turning'), { description: 'x', followUpId: 'm' });
    expect(await client.wait(name('turning'), { followUpId: 'm', timeoutSeconds: 0 })).toMatchObject({
      timedOut: true,
    });
    expect(await client.waitMany({ below: name('turning') }, { all: true, timeoutSeconds: 5 })).toMatchObject(
      { agentId: { agent: ['turning'] }, timedOut: false },
    );
    expect((await client.runs(name('turning'), { runId: runCount })).runs).toMatchObject([
      { runId: runCount, outcome: 'INTERRUPTED' },
    ]);
    expect(await client.kill(name('turning'))).toEqual({});
    expect(await client.status(name('turning'))).toMatchObject({ phase: 'PHASE_CANCELED' });
  });

  test('retry, reopen, fail, delete', async () => {
    await client.spawn({ path: name('failing'), model: 'rehearsal-a' });
    const error = { code: 'PROVIDER_KEY_REFUSED', message: 'no' };
    await testTenant.end(await testTenant.start('failing'), 'FAILED', { error });
    expect(await client.retry(name('failing'))).toEqual({});
    expect(await client.retryMany([name('failing')])).toMatchObject({
      agents: [{ agentId: { agent: ['failing'] }, retried: false, error: { code: 'FAILED_PRECONDITION' } }],
      more: false,
    });
    expect(await client.retryMany({ labels: { team: 'none' } })).toEqual({ agents: [], more: false });
    const claim = await testTenant.start('failing');
    expect(await clientOf(claim.token).fail(claim.agentId, 'It can not be done.')).toEqual({});
    await testTenant.end(claim);
    expect(await client.status(name('failing'))).toMatchObject({
      phase: 'PHASE_FAILED',
      error: { code: 'AGENT_FAILED', message: 'It can not be done.' },
    });
    expect(await client.reopen(name('failing'))).toEqual({});
    expect(await client.status(name('failing'))).toMatchObject({ phaseReason: 'RESTING', error: null });
    await client.kill(name('failing'));
    expect(await client.delete(name('failing'))).toEqual({});
    await expect(client.status(name('failing'))).rejects.toMatchObject({ name: 'NotFoundError' });
  });

  test('list and all its pages', async () => {
    await client.spawn({ path: name('parent'), model: 'rehearsal-a' });
    for (const child of ['a', 'b', 'c'])
      await client.spawn({ path: name(`parent/${child}`), model: 'rehearsal-a' });
    const filter = { parent: name('parent'), pageSize: 2 };
    const page = await client.list(filter);
    expect(page.entries.map(({ agentId }) => agentId.agent[1])).toEqual(['c', 'b']);
    expect(page.nextPageToken).not.toBe('');
    const all = await collect(client.listAll(filter));
    expect(all.map(({ agentId }) => agentId.agent[1])).toEqual(['c', 'b', 'a']);
  });

  test('listStream yields the list, then changes', async () => {
    await client.spawn({ path: name('watched'), model: 'rehearsal-a' });
    const seen: string[] = [];
    for await (const { phase } of client.listStream({ workspace: testTenant.workspace, text: 'watched' })) {
      seen.push(phase);
      if (seen.length === 1) await client.kill(name('watched'));
      else break;
    }
    expect(seen).toEqual(['PHASE_PENDING', 'PHASE_CANCELED']);
  });

  test('timeline, all its pages and its stream', async () => {
    const { entries } = await client.timeline(name('watched'), { limit: 1 });
    expect(entries).toMatchObject([{ sequence: '1', type: 'AGENT_SPAWNED' }]);
    const all = await collect(client.timelineAll(name('watched')));
    expect(all.map(({ type }) => type)).toContain('PHASE_CHANGED');
    expect(await client.timeline(name('watched'), { after: 1 })).toEqual({
      entries: all.slice(1),
      more: false,
      nextSequence: '',
    });
    expect(await client.timelineNewest(name('watched'), { limit: 2 })).toEqual(all.slice(-2));
    const changes = await collect(client.timelineAll(name('watched'), { types: ['PHASE_CHANGED'] }));
    expect(changes).toEqual(all.filter(({ type }) => type === 'PHASE_CHANGED'));
    const streamed: unknown[] = [];
    for await (const entry of client.timelineStream(name('watched'), { after: '1' })) {
      streamed.push(entry);
      if (entry.sequence === all.at(-1)?.sequence) break;
    }
    expect(streamed).toEqual(all.slice(1));
  });

  test('runs, diff', async () => {
    await testTenant.rested('runner');
    await client.queue(name('runner'), 'again');
    await testTenant.turn('runner');
    expect((await client.runs(name('runner'), { before: 2 })).runs.map(({ runId }) => runId)).toEqual(['1']);
    const all = await collect(client.runsAll(name('runner')));
    expect(all.map(({ runId, outcome }) => `${runId} ${outcome}`)).toEqual(['2 COMPLETED', '1 COMPLETED']);
    expect(await client.diff(name('runner'))).toMatchObject({ diff: '', diffStat: null });
    await expect(client.checkpoint(name('runner'))).rejects.toMatchObject({ status: 'NOT_FOUND' });
  });

  test('tasks, createTasks, updateTask', async () => {
    const created = await client.createTasks(name('worker'), [{ id: 'second', blockedBy: ['first'] }]);
    expect(created.tasks.map(({ id }) => id)).toEqual(['first', 'second']);
    const status = 'TASK_STATUS_COMPLETED';
    const { task } = await client.updateTask(name('worker'), 'first', { status, subject: 'Done' });
    expect(task).toMatchObject({ id: 'first', status, subject: 'Done' });
    expect((await client.tasks(name('worker'))).tasks.map((t) => t.status)).toEqual([
      status,
      'TASK_STATUS_PENDING',
    ]);
  });

  test('createReview, listThreads, threads, replyToThread, resolveThread', async () => {
    await client.spawn({ path: name('reviewed'), model: 'rehearsal-a' });
    const comments = ['one', 'two'].map((body, i) => ({ path: 'src/login.ts', line: i + 1, body }));
    const { followUpId, threads } = await client.createReview(name('reviewed'), { comments });
    expect(threads.map((thread) => thread.comments[0]?.body)).toEqual(['one', 'two']);
    expect((await client.followUp(name('reviewed'), followUpId)).tasks).toHaveLength(2);
    const [first] = threads;
    const replied = await client.replyToThread(name('reviewed'), first?.threadId ?? '', 'and?');
    expect(replied.thread.comments.map(({ body }) => body)).toEqual(['one', 'and?']);
    const { thread } = await client.resolveThread(name('reviewed'), first?.threadId ?? '');
    expect(thread.state).toBe('RESOLVED');
    expect((await client.listThreads(name('reviewed'), { pageSize: 1 })).threads).toEqual([thread]);
    const open = await collect(client.threads(name('reviewed'), { states: ['OPEN'] }));
    expect(open.map(({ threadId }) => threadId)).toEqual([threads[1]?.threadId]);
  });

  test('ask and finish, with the key of a run', async () => {
    await client.spawn({ path: name('asking'), model: 'rehearsal-a' });
    const claim = await testTenant.start('asking');
    const own = clientOf(claim.token);
    expect(await own.ask(name('asking'), 'Which one?')).toEqual({});
    await testTenant.end(claim);
    expect(await client.status(name('asking'))).toMatchObject({ needsInput: 'Which one?' });
    await client.queue(name('asking'), 'this one');
    const next = await testTenant.start('asking');
    expect(await clientOf(next.token).finish(name('asking'), 'Done.')).toEqual({});
    await testTenant.end(next);
    expect(await client.status(name('asking'))).toMatchObject({
      phase: 'PHASE_COMPLETED',
      response: 'Done.',
    });
  });
});

describe('the catalog', () => {
  const persona = uniqueName('persona');

  test('documents are written and read as JSON', async () => {
    const document = { instructions: 'Grüße, 世界 🌍', model: 'sonnet', mine: [1, null] };
    const written = await client.catalog.write('persona', persona, document);
    expect(written).toMatchObject({ generation: '1', document: { ...document, name: persona } });
    expect(await client.catalog.read('persona', persona)).toMatchObject({
      kind: 'persona',
      generation: '1',
      inputFormat: 'INPUT_FORMAT_MARKDOWN',
      document,
    });
  });

  test('write with an update mask, a generation and a justification', async () => {
    const { generation, document } = await client.catalog.write(
      'persona',
      persona,
      { model: 'opus', instructions: 'not taken' },
      { updateMask: ['model'], ifGenerationMatch: '1', justification: 'a better model' },
    );
    expect({ generation, document }).toMatchObject({
      generation: '2',
      document: { model: 'opus', instructions: 'Grüße, 世界 🌍' },
    });
    const checked = await client.catalog.validate('persona', persona, { modle: 'opus' });
    expect(checked).toMatchObject({ generation: '3', warnings: [{ field: 'payload.modle' }] });
    const { entries } = await client.catalog.history('persona', persona, { pageSize: 1 });
    expect(entries).toMatchObject([{ generation: '2', action: 'WRITE', document: { model: 'opus' } }]);
    expect(entries[0]?.justification).toMatch(/^a better model \[write [0-9a-f]{32}\]$/);
  });

  test('list and history are paged', async () => {
    const all = await collect(client.catalog.listAll('personas', { pageSize: 2 }));
    expect(all).toEqual([...(await client.catalog.list('persona')).entries]);
    expect(all.filter(({ builtin }) => builtin).map((entry) => entry.name)).toContain('reviewer');
    const history = await collect(client.catalog.historyAll('persona', persona, { pageSize: 1 }));
    expect(history.map(({ generation }) => generation)).toEqual(['2', '1']);
  });

  test('delete', async () => {
    expect(await client.catalog.delete('persona', persona, { ifGenerationMatch: 2 })).toEqual({
      generation: '3',
    });
    expect((await client.catalog.history('persona', persona)).entries[0]).toMatchObject({
      action: 'DELETE',
      document: null,
    });
  });

  test('the write that creates a token returns its key', async () => {
    const { document } = await client.catalog.write('token', uniqueName('key'), { role: 'viewer' });
    expect((await clientOf(String(document.key)).whoami()).role).toBe('viewer');
  });

  test('an operator must give a reason for a conditional write', async () => {
    const operator = clientOf(server.operator.key).catalog;
    const { tenant } = await client.whoami();
    const write = (justification?: string) =>
      operator.write('persona', uniqueName('p'), {}, { tenant, ifGenerationMatch: 0, justification });
    await expect(write()).rejects.toMatchObject({ fieldViolations: [{ field: 'justification' }] });
    expect(await write('asked for')).toMatchObject({ generation: '1' });
  });
});

testCodeHostMethods(client, testTenant);
testTriggerMethods(client);
testAccessMethods(client, { ...server, fetch: recordingFetch });
testNotificationMethods(client);
testSignInMethods(client, server.url, recordingFetch);

test('usage adds up what agents used, page by page', async () => {
  const { rows, nextPageToken } = await client.usage({
    groupBy: ['model'],
    from: new Date(Date.now() - 3_600_000),
  });
  expect(nextPageToken).toBe('');
  const all = [];
  for await (const row of client.usageAll({ groupBy: ['model'], interval: 'day', pageSize: 1 }))
    all.push(row);
  expect(all.map(({ keys }) => keys)).toEqual(rows.map(({ keys }) => keys));
});

test('markAgents records what was seen and pinned', async () => {
  const { agentId } = await client.spawn({ description: '!say x' });
  expect(await client.markAgents([{ agentId, seen: 1, pinned: true }])).toEqual({});
  expect((await client.list({ text: agentId.agent[0] })).entries).toMatchObject([{ seen: '1' }]);
});

test('schedules fires one, and reads its history page by page', async () => {
  const name = uniqueName('schedule');
  const spawn = { description: 'x', model: 'rehearsal-a' };
  await client.catalog.write('schedule', name, { cron: '0 7 1 1 *', spawn, overlap: 'allow' });
  for (const n of [1, 2])
    expect(await client.schedules.run(name)).toMatchObject({
      ...{ outcome: 'FIRED', manual: true, agentId: { agent: [`${name}-${n}`] } },
    });
  const { entries, nextPageToken } = await client.schedules.history(name, { pageSize: 1 });
  expect([entries.length, nextPageToken === '']).toEqual([1, false]);
  const all = [];
  for await (const fire of client.schedules.historyAll(name)) all.push(fire.agentId?.agent[0]);
  expect(all).toEqual([`${name}-2`, `${name}-1`]);
});

test('setBudget limits an agent, and budgets lists it', async () => {
  const path = uniqueName('limited');
  await client.spawn({ path, description: 'x' });
  expect(await client.setBudget(path, 5)).toEqual({ budgetUsd: 5 });
  const { budgets } = await client.budgets();
  expect(budgets.find(({ name }) => name === path)).toMatchObject({ amountUsd: 5, spentUsd: 0 });
  expect(await client.setBudget(path, null)).toEqual({ budgetUsd: null });
});

test('listRunners shows the runners of a pool; poolDemand counts them; others take only their names', async () => {
  const pool = uniqueName('pool');
  await client.catalog.write('pool', pool, {});
  const none = { waiting: 0, running: 0, free: 0, runners: 0, wanted: 0 };
  expect(await client.poolDemand(pool)).toEqual(none);
  expect(await client.drainRunners(pool)).toEqual({ runners: [] });
  expect(await client.listRunners({ pool })).toEqual({ runners: [], nextPageToken: '' });
  expect((await client.runners({ pool }).next()).done).toBe(true);
  await expect(client.drainRunners(pool, ['nobody'])).rejects.toBeInstanceOf(NotFoundError);
  await expect(client.undrainRunners(pool, ['nobody'])).rejects.toBeInstanceOf(NotFoundError);
});

testMemberMethods(client);

test('every route except the runner protocol was called', () => {
  const unused = Object.entries(routes)
    .filter(([route]) => !route.startsWith('runner') && !route.endsWith('ByGet'))
    .filter(([, { method, path }]) => {
      const pattern = new RegExp(`^${method} ${path.replaceAll(/\{[^}]+\}/g, '[^/]+')}$`);
      return ![...sent].some((request) => pattern.test(request));
    });
  expect(unused.map(([route]) => route)).toEqual([]);
});
