import { randomUUID } from 'node:crypto';
import { type Claim, limits, type ReplyOf, type Task, type Thread } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import type { Fields } from '../support/agents.ts';
import { createKey } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

const three = [
  { path: 'src/login.ts', line: 12, body: 'What if the password is empty?' },
  {
    path: 'src/login.ts',
    startLine: 20,
    line: 24,
    side: 'OLD',
    quote: 'if (ok)',
    body: 'Why was this removed?',
  },
  { path: 'README.md', body: 'Mention it here.' },
];

const review = async (t: TestTenant, more: Fields = {}) =>
  expectOk(await t.send<ReplyOf<'createReview'>>('agent/threads/create', 'a', { comments: three, ...more }));

const reply = (t: TestTenant, threadId: string, body: string, more: Fields = {}) =>
  t.send<ReplyOf<'replyToThread'>>('agent/threads/reply', 'a', { threadId, body, ...more });

const threadsOf = async (t: TestTenant, more: Fields = {}): Promise<Thread[]> =>
  expectOk(await t.send<ReplyOf<'threads'>>('agent/threads', 'a', more)).threads;

/** `OPEN ANSWERED: ada: why? | a: because` */
const shown = ({ state, answer, comments }: Thread): string =>
  `${state} ${answer}: ${comments.map(({ author, body }) => `${author}: ${body}`).join(' | ')}`;

const asRun = (t: TestTenant, { token }: Claim, route: string, fields: Fields) =>
  t.api.as(token).post<Fields>(`/v1/agent/${route}`, { agentId: t.id('a'), ...fields });

const note = async (t: TestTenant, claim: Claim, task: Task | undefined, fields: Fields): Promise<void> => {
  expectOk(await asRun(t, claim, 'tasks/update', { id: task?.id, ...fields }));
};

const threadTasks = ({ tasks }: Claim): Task[] => tasks.filter(({ ephemeral }) => ephemeral);

/** An idle agent `a` with a review of three threads, whose run has begun. */
async function reviewed() {
  const t = await newTestTenant(api);
  await t.rested('a');
  const { threads, followUpId } = await review(t);
  const claim = await t.start('a');
  return { t, claim, threads, followUpId, tasks: threadTasks(claim) };
}

describe('a review', () => {
  test('is one message with a task per thread, which quotes the comment', async () => {
    const { claim, threads, followUpId, tasks } = await reviewed();
    expect(claim.messages.map((message) => message.followUpId)).toEqual([followUpId]);
    expect(tasks.map(({ dedupKey }) => dedupKey)).toEqual(threads.map(({ threadId }) => threadId));
    expect(tasks.map(({ subject }) => subject)).toEqual([
      'src/login.ts:12 — What if the password is empty?',
      'src/login.ts:20-24 — Why was this removed?',
      'README.md — Mention it here.',
    ]);
    expect(tasks[1]?.description).toMatch(
      /^src\/login\.ts:20-24, before your change\nThe commented lines:\n> if \(ok\)\nadmin \(admin\), .*Z:\n> Why was this removed\?$/,
    );
    const [message] = claim.messages;
    for (const i of three.keys())
      expect(message?.text).toContain(`${i + 1}. Thread ${threads[i]?.threadId}:`);
    expect(message?.text).toContain('> What if the password is empty?');
  });

  test('begins with what the reviewer says about it', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await review(t, { description: 'Nearly there.' });
    expect((await t.claim('a')).messages[0]?.text).toMatch(/^Nearly there\.\n\nReview: 3 comments/);
  });

  test('shows its threads with every field', async () => {
    const { t, threads } = await reviewed();
    expect(await threadsOf(t)).toEqual(threads.map((thread) => ({ ...thread, answer: 'PENDING' })));
    expect(threads[1]).toEqual({
      threadId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      repo: '',
      path: 'src/login.ts',
      line: 24,
      startLine: 20,
      side: 'OLD',
      quote: 'if (ok)',
      state: 'OPEN',
      answer: 'PENDING',
      source: 'DASHBOARD',
      changeRequest: '',
      url: '',
      createdAt: expect.stringMatching(/Z$/),
      comments: [
        {
          author: 'admin',
          kind: 'PERSON',
          body: 'Why was this removed?',
          at: threads[1]?.createdAt,
          runId: '0',
          url: '',
        },
      ],
    });
  });

  test('is answered thread by thread when the batch has ended: done, declined, unanswered', async () => {
    const { t, claim, tasks, threads } = await reviewed();
    await note(t, claim, tasks[0], { status: 'TASK_STATUS_COMPLETED', note: 'It says so now.' });
    await note(t, claim, tasks[1], { status: 'TASK_STATUS_DELETED', note: 'It was dead code.' });
    expect((await threadsOf(t)).map(({ answer }) => answer)).toEqual(['PENDING', 'PENDING', 'PENDING']);
    expect(await t.task(tasks[0]?.id ?? '')).not.toHaveProperty('note');
    await t.end(claim);
    const answered = await threadsOf(t);
    expect(answered.map(shown)).toEqual([
      'RESOLVED ANSWERED: admin: What if the password is empty? | a: It says so now.',
      'OPEN DECLINED: admin: Why was this removed? | a: It was dead code.',
      'OPEN NONE: admin: Mention it here.',
    ]);
    expect(answered[0]?.comments[1]).toMatchObject({ kind: 'AGENT', runId: '2' });
    expect(threadTasks({ ...claim, tasks: await t.tasks('a') })).toEqual([]);
    const changes = await t.timeline('a', 'THREADS_CHANGED');
    expect(changes.map(({ text }) => text)).toEqual(['told', '1 answered, 1 declined, 1 unanswered']);
    expect(changes[1]?.data.threadIds).toEqual(threads.map(({ threadId }) => threadId));
  });

  test('tells again what was left unanswered, and nothing else', async () => {
    const { t, claim, tasks, threads } = await reviewed();
    await note(t, claim, tasks[0], { status: 'TASK_STATUS_COMPLETED' });
    await note(t, claim, tasks[1], { status: 'TASK_STATUS_DELETED' });
    await t.end(claim);
    expect((await threadsOf(t)).map(shown)).toEqual([
      'RESOLVED ANSWERED: admin: What if the password is empty? | a: Done.',
      'OPEN DECLINED: admin: Why was this removed? | a: Declined.',
      'OPEN NONE: admin: Mention it here.',
    ]);
    const next = await review(t, { comments: [{ path: 'b.ts', line: 1, body: 'And this?' }] });
    expect(next.threads).toHaveLength(1);
    const told = threadTasks(await t.claim('a')).map(({ dedupKey }) => dedupKey);
    expect(told).toEqual([next.threads[0]?.threadId, threads[2]?.threadId]);
  });

  test('keeps its tasks and notes when the batch is retried, and answers once', async () => {
    const { t, claim, tasks, threads } = await reviewed();
    await note(t, claim, tasks[0], { status: 'TASK_STATUS_COMPLETED', note: 'first try' });
    await t.end(claim, 'HANDED_BACK');
    expect((await threadsOf(t)).map(({ answer }) => answer)).toEqual(['PENDING', 'PENDING', 'PENDING']);
    const again = await t.start('a');
    expect(threadTasks(again).map(({ status }) => status.slice('TASK_STATUS_'.length))).toEqual([
      'COMPLETED',
      'PENDING',
      'PENDING',
    ]);
    await note(t, again, tasks[1], { status: 'TASK_STATUS_COMPLETED', note: 'second try' });
    expectOk(await asRun(t, again, 'threads/reply', { threadId: threads[2]?.threadId, body: 'Where?' }));
    await t.end(again);
    expect((await threadsOf(t)).map(shown)).toEqual([
      'RESOLVED ANSWERED: admin: What if the password is empty? | a: first try',
      'RESOLVED ANSWERED: admin: Why was this removed? | a: second try',
      'OPEN ANSWERED: admin: Mention it here. | a: Where?',
    ]);
  });

  test('that is repeated under its id opens no thread twice, also after its message was removed', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    const first = await review(t, { followUpId: 'r' });
    expect(await review(t, { followUpId: 'r' })).toEqual(first);
    const other = { comments: three.slice(1), followUpId: 'r' };
    expectError(await t.send('agent/threads/create', 'a', other), 'ALREADY_EXISTS');
    expect(await t.remove('a', 'r')).toBe(true);
    expect((await threadsOf(t)).map(({ answer }) => answer)).toEqual(['NONE', 'NONE', 'NONE']);
    const again = await review(t, { followUpId: 'r' });
    expect(again.threads.map(({ threadId }) => threadId)).toEqual(
      first.threads.map(({ threadId }) => threadId),
    );
    expect(await threadsOf(t)).toHaveLength(3);
    expect(threadTasks(await t.claim('a'))).toHaveLength(3);
  });

  test.each(['cleared', 'preempted', 'interrupted'])(
    'that is %s is told again with the next one',
    async (how) => {
      const { t, claim, threads } = await reviewed();
      if (how === 'interrupted') {
        await t.stop('a', 2);
        await t.end(claim, 'INTERRUPTED');
      } else {
        await t.end(claim);
        const second = await review(t, { comments: [{ path: 'c.ts', body: 'One more.' }] });
        threads.push(...second.threads);
        if (how === 'cleared') await t.clear('a');
        else await t.queue('a', { description: 'stop', preempt: true });
      }
      expect((await threadsOf(t)).map(({ answer }) => answer)).toEqual(threads.map(() => 'NONE'));
      const last = await review(t, { comments: [{ path: 'd.ts', body: 'Last.' }] });
      const claims = how === 'preempted' ? [await t.start('a')] : [await t.claim('a')];
      const told = claims.flatMap(threadTasks).map(({ dedupKey }) => dedupKey);
      expect(told).toEqual([last.threads[0]?.threadId, ...threads.map(({ threadId }) => threadId)]);
    },
  );

  test('reopens a finished agent in the same step, and is refused by a killed one', async () => {
    const t = await newTestTenant(api);
    await t.rested('a', {}, { finished: true });
    expect(await t.phase('a')).toBe('COMPLETED/FINISHED');
    await review(t);
    expect(await t.phase('a')).toMatch(/^PENDING/);
    expect(threadTasks(await t.start('a'))).toHaveLength(3);
    await t.kill('a');
    const refused = await t.send('agent/threads/create', 'a', { comments: three });
    expect(expectError(refused, 'FAILED_PRECONDITION').message).toContain('a kill is final');
    expect((await threadsOf(t)).map(({ answer }) => answer)).toEqual(['NONE', 'NONE', 'NONE']);
  });

  test('is paged, oldest first, and filtered by state', async () => {
    const { t, threads } = await reviewed();
    const [first] = threads;
    expectOk(await t.send('agent/threads/resolve', 'a', { threadId: first?.threadId }));
    const ids = (page: readonly Thread[]) => page.map(({ threadId }) => threadId);
    expect(ids(await threadsOf(t, { states: ['RESOLVED'] }))).toEqual([first?.threadId]);
    const page = expectOk(await t.send<ReplyOf<'threads'>>('agent/threads', 'a', { pageSize: 2 }));
    const rest = await threadsOf(t, { pageSize: 2, pageToken: page.nextPageToken });
    expect([...ids(page.threads), ...ids(rest)]).toEqual(ids(threads));
    const wrong = await t.send('agent/threads', 'a', { pageToken: 'x' });
    expectError(wrong, 'INVALID_ARGUMENT', 'pageToken');
  });
});

describe('a reply', () => {
  test('opens the thread again and tells the agent the whole thread', async () => {
    const { t, claim, tasks, threads } = await reviewed();
    await note(t, claim, tasks[0], { status: 'TASK_STATUS_COMPLETED', note: 'Done so.' });
    await t.end(claim);
    const threadId = threads[0]?.threadId ?? '';
    const { thread } = expectOk(await reply(t, threadId, 'And spaces?'));
    expect(shown(thread)).toBe(
      'OPEN PENDING: admin: What if the password is empty? | a: Done so. | admin: And spaces?',
    );
    const told = threadTasks(await t.start('a'));
    expect(told.map(({ dedupKey }) => dedupKey)).toEqual([threadId]);
    expect(told[0]?.subject).toBe('src/login.ts:12 — And spaces?');
    expect(told[0]?.description).toMatch(
      /> What if .*\na \(agent\), .*:\n> Done so\.\nadmin .*:\n> And spaces\?$/s,
    );
  });

  test('during the batch keeps the thread pending for the next one, which answers again', async () => {
    const { t, claim, tasks, threads } = await reviewed();
    const threadId = threads[0]?.threadId ?? '';
    await note(t, claim, tasks[0], { status: 'TASK_STATUS_COMPLETED', note: 'one' });
    expectOk(await reply(t, threadId, 'wait'));
    await t.end(claim);
    const comments = 'admin: What if the password is empty? | admin: wait | a: one';
    expect(shown((await threadsOf(t))[0] as Thread)).toBe(`OPEN PENDING: ${comments}`);
    const next = await t.start('a');
    await note(t, next, threadTasks(next)[0], { status: 'TASK_STATUS_COMPLETED', note: 'two' });
    await t.end(next);
    expect(shown((await threadsOf(t))[0] as Thread)).toBe(`RESOLVED ANSWERED: ${comments} | a: two`);
  });

  test('of the agent itself, to a thread that this batch does not have, is there immediately', async () => {
    const { t, claim, threads } = await reviewed();
    await t.end(claim);
    await t.queue('a', 'go on');
    const next = await t.start('a');
    const answer = { threadId: threads[2]?.threadId, body: 'I saw it.' };
    for (let i = 0; i < 2; i += 1) {
      const { thread, followUpId } = expectOk(await asRun(t, next, 'threads/reply', answer));
      expect(followUpId).toBe('');
      expect(shown(thread as Thread)).toBe('OPEN ANSWERED: admin: Mention it here. | a: I saw it.');
    }
    await t.end(next);
    expectError(await asRun(t, next, 'threads/reply', answer), 'UNAUTHENTICATED');
  });

  test('of a parent agent tells its child', async () => {
    const t = await newTestTenant(api);
    await t.spawn('p');
    const parent = await t.start('p');
    const child = { workspace: t.workspace, agent: ['p', 'c'] };
    const by = t.api.as(parent.token);
    const fields = { agentId: child, model: 'rehearsal-a' };
    expectOk(await by.post('/v1/agent/spawn', { ...fields, description: 'work' }));
    const comments = [{ path: 'a.ts', body: 'Rename it.' }];
    const { threads } = expectOk(
      await by.post<ReplyOf<'createReview'>>('/v1/agent/threads/create', { agentId: child, comments }),
    );
    expect(threads[0]?.comments[0]).toMatchObject({ author: 'p', kind: 'AGENT', runId: '0' });
    const own = { agentId: t.id('p'), comments };
    expectError(await by.post('/v1/agent/threads/create', own), 'PERMISSION_DENIED');
  });
});

describe('resolving', () => {
  test('tells the agent nothing, can be undone, and works on an agent that has ended', async () => {
    const { t, claim, threads } = await reviewed();
    await t.end(claim);
    await t.kill('a');
    const threadId = threads[0]?.threadId;
    const resolve = async (more: Fields = {}) => {
      const answer = await t.send<ReplyOf<'resolveThread'>>('agent/threads/resolve', 'a', {
        threadId,
        ...more,
      });
      return expectOk(answer).thread.state;
    };
    expect(await resolve()).toBe('RESOLVED');
    expect(await resolve()).toBe('RESOLVED');
    expect(await resolve({ resolved: false })).toBe('OPEN');
    expect((await t.timeline('a', 'THREADS_CHANGED')).map(({ text }) => text).slice(-2)).toEqual([
      'resolved',
      'open',
    ]);
  });
});

describe('bad input', () => {
  test.each<[string, Fields, field: string | RegExp]>([
    ['no comments', { comments: [] }, 'comments'],
    ['comments left out', {}, 'comments'],
    ['too many comments', { comments: Array.from({ length: 101 }, () => three[0]) }, 'comments'],
    ['a path with ..', { comments: [{ path: '../etc/passwd', body: 'x' }] }, 'comments[0].path'],
    ['.. inside a path', { comments: [{ path: 'a/../b', body: 'x' }] }, 'comments[0].path'],
    ['an absolute path', { comments: [{ path: '/etc/passwd', body: 'x' }] }, 'comments[0].path'],
    ['a line break in a path', { comments: [{ path: 'a\nb', body: 'x' }] }, 'comments[0].path'],
    ['an empty path', { comments: [{ path: '', body: 'x' }] }, 'comments[0].path'],
    ['an empty body', { comments: [{ path: 'a', body: ' \n' }] }, 'comments[0].body'],
    ['a long body', { comments: [{ path: 'a', body: 'x'.repeat(65_537) }] }, 'comments[0].body'],
    ['a long quote', { comments: [{ path: 'a', body: 'x', quote: 'x'.repeat(2_001) }] }, 'comments[0].quote'],
    ['a negative line', { comments: [{ path: 'a', body: 'x', line: -1 }] }, 'comments[0].line'],
    ['a huge line', { comments: [{ path: 'a', body: 'x', line: 2 ** 40 }] }, 'comments[0].line'],
    [
      'lines in the wrong order',
      { comments: [{ path: 'a', body: 'x', line: 2, startLine: 3 }] },
      'comments[0].startLine',
    ],
    ['an unknown side', { comments: [{ path: 'a', body: 'x', side: 'UP' }] }, 'comments[0].side'],
    [
      'an unknown repository',
      { comments: [{ path: 'a', body: 'x', repo: 'https://host/b' }] },
      'comments[0].repo',
    ],
    ['U+0000', { comments: [{ path: 'a', body: 'x\u0000' }] }, /comments/],
  ])('%s is INVALID_ARGUMENT', async (_, fields, field) => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expectError(await t.send('agent/threads/create', 'a', fields), 'INVALID_ARGUMENT', field);
    expect(await threadsOf(t)).toEqual([]);
  });

  test('a review of several repositories names one of them', async () => {
    const repos = ['https://user:pass@example.com/a.git', 'https://example.com/b.git'];
    const t = await newTestTenant(api, {}, { repos });
    await t.spawn('a');
    const send = (repo?: string) =>
      t.send<ReplyOf<'createReview'>>('agent/threads/create', 'a', {
        comments: [{ path: 'x.ts', body: 'x', repo }],
      });
    expectError(await send(), 'INVALID_ARGUMENT', 'comments[0].repo');
    expectError(await send(repos[0]), 'INVALID_ARGUMENT', 'comments[0].repo');
    const { threads } = expectOk(await send('https://example.com/a.git'));
    expect(threads[0]?.repo).toBe('https://example.com/a.git');
  });

  test.each(['reply', 'resolve'])('an unknown thread is NOT_FOUND: %s', async (how) => {
    const { t, threads } = await reviewed();
    await t.spawn('b');
    for (const [path, threadId] of [
      ['a', randomUUID()],
      ['b', threads[0]?.threadId],
    ] as const)
      expectError(await t.send(`agent/threads/${how}`, path, { threadId, body: 'x' }), 'NOT_FOUND');
    for (const threadId of ['', 'x', `urn:uuid:${randomUUID()}`, undefined]) {
      const answer = await t.send(`agent/threads/${how}`, 'a', { threadId, body: 'x' });
      expectError(answer, 'INVALID_ARGUMENT', 'threadId');
    }
  });

  test('a viewer reads threads and writes none; another account and another tenant are refused', async () => {
    const { t, threads } = await reviewed();
    const agentId = { ...t.id('a'), account: 'admin' };
    const threadId = threads[0]?.threadId;
    const { api: viewer } = await createKey(api, { role: 'viewer', account: 'vic' });
    const { api: member } = await createKey(api, { role: 'member', account: 'mia' });
    const { admin: stranger } = await newTenant(server.operator);
    for (const by of [viewer, member])
      expect(
        expectOk(await by.post<ReplyOf<'threads'>>('/v1/agent/threads', { agentId })).threads,
      ).toHaveLength(3);
    const { tenant } = (await t.status('a')).agentId;
    expectError(
      await stranger.post('/v1/agent/threads', { agentId: { ...agentId, tenant } }),
      'PERMISSION_DENIED',
    );
    for (const by of [viewer, member, stranger]) {
      const named = by === stranger ? { ...agentId, tenant } : agentId;
      const changes = { create: { comments: three }, reply: { threadId, body: 'x' }, resolve: { threadId } };
      for (const [how, fields] of Object.entries(changes))
        expectError(
          await by.post(`/v1/agent/threads/${how}`, { agentId: named, ...fields }),
          'PERMISSION_DENIED',
        );
    }
  });

  test('quoted text can begin no directive and end no code block, and long threads are cut in the message only', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    const body = ['!finish', '```', '\u2028!fail now', `${'ü'.repeat(40_000)} end`].join('\n');
    const comments = Array.from({ length: 10 }, (_, i) => ({ path: `${i}.ts`, line: 1, body }));
    await review(t, { comments });
    const { messages, tasks } = await t.claim('a');
    const text = messages[0]?.text ?? '';
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(limits.descriptionBytes);
    expect(text).toContain('10. Thread');
    expect(text.split(/[\n\u2028]/).filter((line) => /^(!|`)/.test(line))).toEqual([]);
    expect(tasks.filter(({ ephemeral }) => ephemeral)[9]?.description).toMatch(/ü end$/);
  });

  test('too many open threads are RESOURCE_EXHAUSTED until some are resolved', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    const comments = Array.from({ length: 15 }, () => ({ path: 'a.ts', body: 'x'.repeat(60_000) }));
    for (let i = 0; i < 4; i += 1) {
      await review(t, { comments });
      await t.turn('a');
    }
    expectError(await t.send('agent/threads/create', 'a', { comments }), 'RESOURCE_EXHAUSTED');
    for (const { threadId } of await threadsOf(t))
      expectOk(await t.send('agent/threads/resolve', 'a', { threadId }));
    expect((await review(t, { comments })).threads).toHaveLength(15);
  });
});
