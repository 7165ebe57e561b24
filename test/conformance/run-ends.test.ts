import { describe, expect, test } from 'vitest';
import { expectRunFenced } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { inAnHour, inMs, newTestTenant, type TestTenant, textsOf } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

interface RunEnd {
  queued?: true;
  stopped?: true;
  question?: true;
  tasks?: true;
  children?: true;
  finished?: true;
  deferred?: true;
}

/** Ends a run with all of these at the same time. */
async function endWith(what: RunEnd): Promise<TestTenant> {
  const t = await newTestTenant(api);
  await t.spawn('a', what.tasks ? { tasks: [{ id: 't', subject: 'unfinished' }] } : {});
  const run = await t.start('a');
  if (what.children) await t.spawn('a/child');
  if (what.deferred) await t.queue('a', { followUpId: 'deferred', description: 'd', deliverAt: inAnHour() });
  if (what.queued) await t.queue('a', 'queued');
  if (what.stopped) await t.stop('a', 1);
  await t.end(run, what.stopped ? 'INTERRUPTED' : 'COMPLETED', {
    ...(what.question && { question: 'Which way?' }),
    ...(what.finished && { finished: true }),
  });
  return t;
}

describe('when a run ends', () => {
  test.each<[phase: RegExp, end: RunEnd]>([
    [
      /^PENDING\/(?!CHILDREN)/,
      {
        queued: true,
        stopped: true,
        question: true,
        tasks: true,
        children: true,
        finished: true,
        deferred: true,
      },
    ],
    [/^PENDING\/(?!CHILDREN)/, { queued: true, finished: true }],
    [/^PENDING\/(?!CHILDREN)/, { queued: true }],
    [
      /^WAITING_FOR_INPUT\/INTERRUPTED$/,
      { stopped: true, question: true, tasks: true, children: true, finished: true, deferred: true },
    ],
    [/^WAITING_FOR_INPUT\/INTERRUPTED$/, { stopped: true }],
    [
      /^WAITING_FOR_INPUT\/QUESTION$/,
      { question: true, tasks: true, children: true, finished: true, deferred: true },
    ],
    [/^WAITING_FOR_INPUT\/QUESTION$/, { question: true }],
    [
      /^WAITING_FOR_INPUT\/TASKS_UNFINISHED$/,
      { tasks: true, children: true, finished: true, deferred: true },
    ],
    [/^WAITING_FOR_INPUT\/TASKS_UNFINISHED$/, { tasks: true }],
    [/^PENDING\/CHILDREN$/, { children: true, finished: true, deferred: true }],
    [/^PENDING\/CHILDREN$/, { children: true }],
    [/^COMPLETED\/FINISHED$/, { finished: true }],
    [/^WAITING_FOR_INPUT\/DEFERRED$/, { finished: true, deferred: true }],
    [/^WAITING_FOR_INPUT\/DEFERRED$/, { deferred: true }],
    [/^WAITING_FOR_INPUT\/RESTING$/, {}],
  ])('the agent is %s after %j', async (phase, end) => {
    const t = await endWith(end);
    expect(await t.phase('a')).toMatch(phase);
    const record = await t.status('a');
    expect(record.needsInput !== '').toBe(record.phaseReason === 'QUESTION');
    if (record.phaseReason === 'DEFERRED') expect(record.wakesAt).not.toBeNull();
    if (!end.deferred) expect(record.wakesAt).toBeNull();
    expect(await t.offered().then((paths) => paths.filter((path) => path === 'a'))).toEqual(
      end.queued ? ['a'] : [],
    );
  });

  test('a killed agent is CANCELED, whatever its run reports later', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', 'queued');
    await t.kill('a');
    expect(await t.phase('a')).toBe('CANCELED/KILLED');
    for (const outcome of ['COMPLETED', 'HANDED_BACK', 'FAILED']) {
      expectRunFenced(await t.runner.end(run, outcome, { finished: true }));
    }
    expect(await t.phase('a')).toBe('CANCELED/KILLED');
    expect(await t.offered()).toEqual([]);
  });

  test('HANDED_BACK starts a new run with the same batch in the same session, before queued messages', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'spawned' });
    const one = await t.queue('a', 'one');
    const first = await t.start('a');
    await t.report(first, { session: 'session-7' });
    await t.queue('a', 'behind');
    await t.end(first, 'HANDED_BACK');
    expect(await t.phase('a')).toBe('PENDING/RETRYING');
    const second = await t.start('a');
    expect(second).toMatchObject({ runId: 2, attempt: 2, session: 'session-7', messages: first.messages });
    await t.end(second);
    const third = await t.claim('a');
    expect(third).toMatchObject({ runId: 3, attempt: 1, session: 'session-7' });
    expect(textsOf(third)).toEqual(['behind']);
    expect((await t.runs('a')).map(({ runId, batch, outcome }) => [runId, batch, outcome])).toEqual([
      ['3', '3', ''],
      ['2', '1', 'COMPLETED'],
      ['1', '1', 'HANDED_BACK'],
    ]);
    expect((await t.runs('a'))[1]?.followUpIds).toEqual([one]);
    expect((await t.timeline('a', 'RUN_STARTED')).map(({ runId }) => runId)).toEqual(['1', '2', '3']);
  });

  test('HANDED_BACK does not count as a loss and may happen any number of times', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      const run = await t.start('a');
      expect(run).toMatchObject({ runId: attempt, attempt });
      await t.end(run, 'HANDED_BACK');
    }
    expect(await t.phase('a')).toBe('PENDING/RETRYING');
  });

  test('PARKED is PENDING/PROVIDER_LIMIT until the reset; then the same batch runs, before queued messages', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', { description: 'spawned' });
    const first = await t.start('a');
    await t.queue('a', 'behind');
    const limitUntil = inMs(1500);
    await t.end(first, 'PARKED', { limitUntil });
    const parked = await t.status('a');
    expect(`${parked.phase}/${parked.phaseReason}`).toBe('PHASE_PENDING/PROVIDER_LIMIT');
    expect(Date.parse(parked.wakesAt ?? '')).toBe(Date.parse(limitUntil));
    expect(parked.run).toMatchObject({ state: 'ENDED', outcome: 'PARKED' });
    expect(await t.offered()).toEqual([]);
    const second = await t.start('a');
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(limitUntil));
    expect(second).toMatchObject({ runId: 2, attempt: 2, messages: first.messages });
    expect((await t.status('a')).wakesAt).toBeNull();
    await t.end(second);
    expect(textsOf(await t.claim('a'))).toEqual(['behind']);
  });

  test('a message does not start a parked agent earlier', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.end(await t.start('a'), 'PARKED', { limitUntil: inAnHour() });
    const id = await t.queue('a', 'hurry');
    expect(await t.phase('a')).toBe('PENDING/PROVIDER_LIMIT');
    expect(await t.offered()).toEqual([]);
    expect(await t.remove('a', id)).toBe(true);
    expect(await t.phase('a')).toBe('PENDING/PROVIDER_LIMIT');
  });

  test('FAILED for good is FAILED/ERROR with the error, and clears undelivered messages', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.queue('a', { followUpId: 'queued', description: 'q' });
    await t.queue('a', { followUpId: 'deferred', description: 'd', deliverAt: inAnHour() });
    const error = { code: 'REHEARSED_FAILURE', message: 'told to fail' };
    await t.end(run, 'FAILED', { error, question: 'Eh?', finished: true });
    expect(await t.status('a')).toMatchObject({
      phase: 'PHASE_FAILED',
      phaseReason: 'ERROR',
      error,
      needsInput: '',
      wakesAt: null,
      followUps: [],
      endedAt: expect.any(String),
    });
    const cleared = await t.timeline('a', 'FOLLOW_UP_CLEARED');
    expect(cleared.map(({ followUpId, data }) => [followUpId, data.from, data.to])).toEqual(
      expect.arrayContaining([
        ['queued', 'QUEUED', 'CLEARED'],
        ['deferred', 'DEFERRED', 'CLEARED'],
      ]),
    );
    expect(cleared).toHaveLength(2);
    for (const entry of cleared) {
      expect(JSON.stringify(entry)).toMatch(/REHEARSED_FAILURE|told to fail/);
    }
  });

  test.each(['COMPLETED', 'FAILED', 'PARKED', 'HANDED_BACK', 'INTERRUPTED'])(
    'a run told to stop ends INTERRUPTED even if it reports %s',
    async (outcome) => {
      const t = await newTestTenant(api);
      await t.spawn('a');
      const run = await t.start('a');
      await t.stop('a', 1);
      await t.end(run, outcome, {
        error: { code: 'X', message: 'x' },
        ...(outcome === 'PARKED' && { limitUntil: inAnHour() }),
      });
      expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/INTERRUPTED');
      expect((await t.status('a')).run).toMatchObject({ state: 'ENDED', outcome: 'INTERRUPTED' });
    },
  );

  test('the question is needsInput, in the timeline too, until a message is delivered', async () => {
    const t = await endWith({ question: true });
    expect((await t.status('a')).needsInput).toBe('Which way?');
    expect((await t.timeline('a', 'QUESTION')).map(({ text, runId }) => [text, runId])).toEqual([
      ['Which way?', '1'],
    ]);
    await t.queue('a', 'left');
    await t.start('a');
    expect((await t.status('a')).needsInput).toBe('');
  });

  test('completed, deleted and inactive tasks, and tasks behind inactive ones, are not unfinished', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a', {
      tasks: [
        { id: 'done', status: 'TASK_STATUS_COMPLETED' },
        { id: 'gone' },
        { id: 'idle', activation: { filesModified: { pattern: '*.md' } } },
        { id: 'behind', blockedBy: ['idle'] },
        { id: 'further', blockedBy: ['behind'] },
      ],
    });
    await t.send('agent/tasks/update', 'a', { id: 'gone', status: 'TASK_STATUS_DELETED' });
    const run = await t.start('a');
    expect((await t.report(run, { currentAction: 'x' })).activeTaskIds).toEqual([]);
    await t.end(run);
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('an idle child does not count as working', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    await t.spawn('a/child');
    await t.turn('a/child');
    await t.end(run);
    await t.turn('a');
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test('wakesAt is the time of the earliest deferred message', async () => {
    const t = await endWith({ deferred: true });
    const sooner = inMs(1_800_000);
    await t.queue('a', { followUpId: 'sooner', description: 's', deliverAt: sooner });
    expect(Date.parse((await t.status('a')).wakesAt ?? '')).toBe(Date.parse(sooner));
    await t.remove('a', 'sooner');
    expect(Date.parse((await t.status('a')).wakesAt ?? '')).toBeGreaterThan(Date.parse(sooner));
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/DEFERRED');
  });

  test('a deferred message wakes the agent when it is due', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    const deliverAt = inMs(700);
    await t.queue('a', { description: 'good morning', deliverAt });
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/DEFERRED');
    expect(await t.offered()).toEqual([]);
    const run = await t.claim('a');
    expect(textsOf(run)).toEqual(['good morning']);
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(deliverAt));
  });
});

describe('an agent becomes idle again', () => {
  const rests: [reason: string, what: RunEnd, phase: string][] = [
    ['RESTING', {}, 'WAITING_FOR_INPUT/RESTING'],
    ['QUESTION', { question: true }, 'WAITING_FOR_INPUT/QUESTION'],
    ['INTERRUPTED', { stopped: true }, 'WAITING_FOR_INPUT/INTERRUPTED'],
    ['TASKS_UNFINISHED', { tasks: true }, 'WAITING_FOR_INPUT/TASKS_UNFINISHED'],
    ['DEFERRED', { deferred: true }, 'WAITING_FOR_INPUT/DEFERRED'],
    ['CHILDREN', { children: true }, 'PENDING/CHILDREN'],
  ];

  test.each(rests)('removing the last queued message returns it to %s', async (_r, what, phase) => {
    const t = await endWith(what);
    const before = await t.status('a');
    const ids = [await t.queue('a', 'one'), await t.queue('a', 'two')];
    expect(await t.phase('a')).toMatch(/^PENDING\/(?!CHILDREN)/);
    await t.remove('a', ids[0] as string);
    expect(await t.phase('a')).toMatch(/^PENDING\/(?!CHILDREN)/);
    await t.remove('a', ids[1] as string);
    expect(await t.phase('a')).toBe(phase);
    const { needsInput, wakesAt, runCount } = before;
    expect(await t.status('a')).toMatchObject({ needsInput, wakesAt, runCount });
    expect((await t.offered()).filter((path) => path === 'a')).toEqual([]);
  });

  test.each(rests)('clearing the queue returns it to %s', async (_reason, what, phase) => {
    const t = await endWith(what);
    await t.queue('a', 'one');
    await t.queue('a', 'two');
    expect(await t.clear('a')).toBe(2);
    expect(await t.phase('a')).toBe(phase);
  });

  test('an agent with a batch to retry stays PENDING when its queue is emptied', async () => {
    const t = await newTestTenant(api);
    await t.spawn('new');
    await t.queue('new', 'one');
    await t.clear('new');
    expect(textsOf(await t.claim('new'))).toEqual(['work']);
    await t.spawn('retry');
    await t.end(await t.start('retry'), 'HANDED_BACK');
    await t.queue('retry', 'one');
    await t.clear('retry');
    expect(await t.phase('retry')).toBe('PENDING/RETRYING');
    expect(textsOf(await t.claim('retry'))).toEqual(['work']);
  });

  test.each<[what: RunEnd, phase: string]>([
    [{ deferred: true }, 'WAITING_FOR_INPUT/RESTING'],
    [{ deferred: true, finished: true }, 'COMPLETED/FINISHED'],
    [{ deferred: true, question: true, finished: true }, 'WAITING_FOR_INPUT/QUESTION'],
    [{ deferred: true, stopped: true }, 'WAITING_FOR_INPUT/INTERRUPTED'],
    [{ deferred: true, tasks: true, finished: true }, 'WAITING_FOR_INPUT/TASKS_UNFINISHED'],
    [{ deferred: true, children: true, finished: true }, 'PENDING/CHILDREN'],
  ])('when the last deferred message is removed, the state is decided again: %j', async (what, phase) => {
    const t = await endWith(what);
    expect(await t.remove('a', 'deferred')).toBe(true);
    expect(await t.phase('a')).toBe(phase);
    expect((await t.status('a')).wakesAt).toBeNull();
  });

  test('a deferred message to an idle agent makes it DEFERRED, and its removal makes it idle again', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'later', description: 'l', deliverAt: inAnHour() });
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/DEFERRED');
    await t.remove('a', 'later');
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });
});
