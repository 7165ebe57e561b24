import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { forgejoDeliveries } from '../../packages/service/src/codehost/forgejo/deliveries.ts';
import { gitlabDeliveries } from '../../packages/service/src/codehost/gitlab/deliveries.ts';
import type {
  DeliveryReader,
  Host,
  HostChangeRequest,
  HostEvent,
  HostThread,
} from '../../packages/service/src/codehost/host.ts';
import type { Headers } from '../../packages/service/src/work/host-error.ts';
import { FakeForgejo } from './forgejo.ts';
import { FakeGitlab } from './gitlab.ts';
import type { SmallHost } from './small-host.ts';

interface Kind {
  readonly name: string;
  readonly start: () => Promise<SmallHost>;
  readonly reader: DeliveryReader;
  readonly secret: string;
  readonly capabilities: Host['capabilities'];
}

const all = { resolvesThreads: true, repliesToThreads: true, namesAdditions: true, readsLogs: true };
const none = { resolvesThreads: false, repliesToThreads: false, namesAdditions: false, readsLogs: false };
const secret = 'the secret of the webhook';
const signingToken = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const kinds: readonly Kind[] = [
  { name: 'GitLab', start: FakeGitlab.start, reader: gitlabDeliveries, secret, capabilities: all },
  {
    ...{ name: 'GitLab with a signing token', start: FakeGitlab.start, reader: gitlabDeliveries },
    ...{ secret: signingToken, capabilities: all },
  },
  {
    ...{ name: 'Gitea', start: () => FakeForgejo.start('gitea'), reader: forgejoDeliveries, secret },
    capabilities: { ...all, namesAdditions: false, readsLogs: false },
  },
  {
    ...{
      name: 'an old Gitea',
      start: () => FakeForgejo.start('oldGitea'),
      reader: forgejoDeliveries,
      secret,
    },
    capabilities: none,
  },
  {
    ...{ name: 'Forgejo', start: () => FakeForgejo.start('forgejo'), reader: forgejoDeliveries, secret },
    capabilities: { ...none, repliesToThreads: true },
  },
];

describe.each(kinds)('$name', ({ start, reader, secret: hookSecret, capabilities }) => {
  let fake: SmallHost;
  let host: Host;

  beforeAll(async () => {
    fake = await start();
    host = fake.connect();
  });

  afterEach(() => {
    fake.faults.clear();
    fake.pageSize = 100;
  });

  afterAll(() => fake.stop());

  async function open(branch: string, isDraft = false): Promise<HostChangeRequest> {
    fake.remote.commit(branch, { 'a.txt': 'one\ntwo\n', 'b.txt': `${branch}\n` }, 'main');
    const request = { branch, base: 'main', title: `Add ${branch}`, body: 'What it does.', isDraft };
    return host.openChangeRequest(fake.repo, request);
  }

  const threadOn = (threads: readonly HostThread[], path: string): HostThread => {
    const found = threads.find((thread) => thread.path === path);
    if (!found) throw new Error(`no thread on ${path || 'the whole'}`);
    return found;
  };

  it('knows its account, its repositories, and what people may do', async () => {
    expect((await host.self()).login).toBe('muster-account');
    expect(await host.repositories()).toEqual([fake.repo]);
    expect(await host.defaultBranch(fake.repo)).toBe('main');
    const { maintainer, reviewer, stranger, bot } = fake.people;
    const asked = [maintainer, reviewer, stranger, bot, { id: '999999', login: 'nobody' }];
    const found = await Promise.all(asked.map((person) => host.permissionOf(fake.repo, person)));
    expect(found).toEqual(['admin', 'write', 'none', 'read', 'none']);
    expect(host.capabilities).toEqual(capabilities);
  });

  it('opens change requests, finds them by branch and commit, and follows their state', async () => {
    const opened = await open('feature');
    expect(opened).toMatchObject({
      ...{ repo: fake.repo, title: 'Add feature', state: 'OPEN', branch: 'feature', base: 'main' },
      ...{ isFork: false, hasConflict: false, headSha: fake.remote.tip('feature') },
    });
    expect(opened.url).toMatch(new RegExp(`^${fake.url}/team/project/.*${opened.number}$`));
    expect(await host.changeRequest(fake.repo, opened.number)).toEqual(opened);
    expect(await host.changeRequestsFrom(fake.repo, 'feature')).toEqual([opened]);
    expect(await host.changeRequestsFrom(fake.repo, 'other')).toEqual([]);
    await fake.merge(opened.number, 'maintainer');
    expect(await host.changeRequest(fake.repo, opened.number)).toMatchObject({
      state: 'MERGED',
      hasConflict: null,
    });
    expect(await host.changeRequestsFrom(fake.repo, 'feature')).toEqual([]);
    const draft = await open('draft', true);
    expect(draft.state).toBe('DRAFT');
    await fake.close(draft.number, 'maintainer');
    expect((await host.changeRequest(fake.repo, draft.number)).state).toBe('CLOSED');
  });

  it('opens a change request once', async () => {
    const opened = await open('twice');
    expect(await host.openChangeRequest(fake.repo, { ...opened, body: '', isDraft: false })).toEqual(opened);
  });

  it('tells a fork from a branch', async () => {
    const number = await fake.openFromFork('From a fork');
    expect(await host.changeRequest(fake.repo, number)).toMatchObject({ isFork: true, branch: '' });
    expect(await host.changeRequestsFrom(fake.repo, 'main')).toEqual([]);
  });

  it('reads threads with their replies, page by page', async () => {
    fake.pageSize = 2;
    const { number } = await open('threads');
    const ids = await fake.review(number, {
      ...{ by: 'reviewer', verdict: 'CHANGES_REQUESTED', body: 'Please look.' },
      threads: [
        { path: 'a.txt', line: 1, body: 'First' },
        { path: 'a.txt', line: 2, body: 'Second' },
        { path: 'b.txt', line: 1, body: 'Third' },
      ],
    });
    await fake.replyInThread(number, ids[0] ?? '', 'Indeed', 'maintainer');
    for (const text of ['One', 'Two', 'Three'])
      await fake.comment({ type: 'change-request', number }, text, 'maintainer');
    const threads = await host.threads(fake.repo, number);
    expect(threads.filter(({ path }) => path !== '').map(({ id }) => id)).toEqual(ids);
    expect(threads[0]).toMatchObject({
      ...{ path: 'a.txt', line: 1, startLine: null, side: 'NEW', isResolved: false },
      canResolve: capabilities.resolvesThreads,
    });
    expect(threads[0]?.comments.map(({ body, author }) => [body, author])).toEqual([
      ['First', fake.people.reviewer],
      ['Indeed', fake.people.maintainer],
    ]);
    const whole = threads.filter(({ path }) => path === '').map(({ comments }) => comments[0]?.body);
    expect(whole).toEqual(['Please look.', 'One', 'Two', 'Three']);
    expect(new Set(threads.flatMap(({ comments }) => comments.map(({ id }) => id))).size).toBe(8);
    expect(await host.reviews(fake.repo, number)).toMatchObject([
      { author: fake.people.reviewer, verdict: 'CHANGES_REQUESTED' },
    ]);
    await fake.review(number, { by: 'maintainer', verdict: 'APPROVED', threads: [] });
    const verdicts = (await host.reviews(fake.repo, number)).map(({ verdict }) => verdict);
    expect(verdicts.sort()).toEqual(['APPROVED', 'CHANGES_REQUESTED']);
  });

  it('answers threads, or comments with a link to them, and resolves what can be resolved', async () => {
    const { number } = await open('answers');
    await fake.review(number, {
      ...{ by: 'reviewer', verdict: 'COMMENTED', body: 'In general, fine.' },
      threads: [{ path: 'a.txt', line: 2, body: 'Why?' }],
    });
    const [before] = await host.threads(fake.repo, number);
    if (!before) throw new Error('thread not found');
    const posted = await host.reply(fake.repo, number, before, 'Because.');
    const threads = await host.threads(fake.repo, number);
    const comments = threads.flatMap((thread) => thread.comments);
    expect(comments.find(({ id }) => id === posted.id)).toMatchObject({
      ...{ url: posted.url, body: expect.stringContaining('Because.') },
      author: { login: 'muster-account' },
    });
    const answered = threadOn(threads, 'a.txt').comments.map(({ body }) => body);
    expect(answered).toEqual(capabilities.repliesToThreads ? ['Why?', 'Because.'] : ['Why?']);
    if (!capabilities.repliesToThreads)
      expect(comments.map(({ body }) => body)).toContainEqual(
        `In reply to [this comment](${before.comments[0]?.url}) on \`a.txt:2\`:\n\nBecause.`,
      );
    await host.reply(fake.repo, number, threadOn(threads, ''), 'Thanks.');
    expect(JSON.stringify(await fake.threads(number))).toContain('Thanks.');
    if (capabilities.resolvesThreads) {
      await host.resolve(fake.repo, number, before);
      const resolved = threadOn(await host.threads(fake.repo, number), 'a.txt');
      expect(resolved.isResolved).toBe(true);
      await host.resolve(fake.repo, number, resolved, false);
      expect(threadOn(await host.threads(fake.repo, number), 'a.txt').isResolved).toBe(false);
    } else await expect(host.resolve(fake.repo, number, before)).rejects.toMatchObject({ kind: 'refused' });
  });

  it('comments on issues and change requests, and finds what it commented since', async () => {
    const { number } = await open('comments');
    const issue = await fake.addIssue('maintainer', 'A bug', 'It fails.');
    for (const subject of [
      { type: 'change-request', number },
      { type: 'issue', number: issue },
    ] as const) {
      await host.comment(fake.repo, subject, 'Earlier');
      const since = fake.now();
      const posted = await host.comment(fake.repo, subject, `Done\n<!-- marker ${subject.type} -->`);
      const found = await host.comments(fake.repo, subject, since);
      expect(found.map(({ id, url }) => ({ id, url }))).toEqual([posted]);
      expect((await fake.comments(subject)).map(({ author }) => author)).toEqual([
        'muster-account',
        'muster-account',
      ]);
    }
  });

  it('reads checks, and the end of logs where there are logs', async () => {
    fake.pageSize = 2;
    const { headSha } = await open('checks');
    expect(await host.checks(fake.repo, headSha)).toEqual([]);
    const log = `section_start:1:a[x]\r\u001b[0Kbegin\n${'x'.repeat(5_000)}\nsection_end:1:a\r\u001b[0Kfailed: ä`;
    await fake.setCheck(headSha, { name: 'lint', state: 'PASSED' });
    await fake.setCheck(headSha, { name: 'test', state: 'PENDING' });
    await fake.setCheck(headSha, { name: 'test', state: 'FAILED', summary: '2 tests failed', log });
    await fake.setCheck(headSha, { name: 'deploy', state: 'SKIPPED', summary: 'not now' });
    const checks = await host.checks(fake.repo, headSha);
    expect(checks.map(({ name, state, summary }) => `${name} ${state} ${summary}`)).toEqual([
      'lint PASSED ',
      'test FAILED 2 tests failed',
      'deploy SKIPPED not now',
    ]);
    for (const { url } of checks) expect(url).toMatch(/^https?:\/\//);
    const ends = await Promise.all(checks.map((check) => host.endOfLog(fake.repo, check, 50)));
    expect(ends.map((end) => end.replace(/^x*\n/, ''))).toEqual([
      '',
      capabilities.readsLogs ? '\u001b[0Kfailed: ä' : '',
      '',
    ]);
  });

  it('pushes and fetches with the credential, and not without', async () => {
    const { username, password, expiresAt } = await host.gitCredential(fake.repo);
    expect(expiresAt).toBeNull();
    const git = (credential: string) =>
      promisify(execFile)('git', ['ls-remote', fake.gitUrl.replace('://', `://${credential}@`), 'main'], {
        env: { PATH: process.env.PATH, GIT_TERMINAL_PROMPT: '0', GIT_CONFIG_GLOBAL: '/dev/null' },
      });
    expect((await git(`${username}:${password}`)).stdout).toContain(fake.remote.tip('main'));
    await expect(git(`${username}:wrong`)).rejects.toThrow();
  });

  it('has all that the integration needs, or says what is missing', async () => {
    const met = await host.requirements(fake.repo);
    expect(met.filter(({ isMet }) => !isMet)).toEqual([]);
    expect(met.length).toBeGreaterThan(3);
    const missing = await fake.connect({ token: fake.accounts.bot.token }).requirements(fake.repo);
    expect(missing.filter(({ isMet }) => !isMet).map(({ advice }) => advice)).toContainEqual(
      expect.stringMatching(/role Developer|write access/),
    );
    const unknown = await fake.connect({ token: 'wrong' }).requirements(fake.repo);
    expect(unknown).toEqual([
      { name: 'token', isMet: false, advice: expect.stringContaining(': 401 Unauthorized.') },
    ]);
  });

  describe('when it fails', () => {
    const subject = { type: 'change-request', number: 1 } as const;
    const comment = (with_: Host) => with_.comment(fake.repo, subject, 'Done.');

    it.each([401, 403, 404, 422])('with %d, is not asked again', async (status) => {
      fake.faults.add({ method: 'POST', path: /\/(notes|comments)$/, reply: { status } });
      await expect(comment(fake.connect())).rejects.toMatchObject({ kind: 'refused', status });
    });

    it('with a limit, is left alone for the time that it says', async () => {
      const limited = fake.connect();
      fake.faults.add({
        path: /\/(notes|comments)$/,
        reply: { status: 429, headers: { 'retry-after': '1800' } },
      });
      await expect(comment(limited)).rejects.toMatchObject({ kind: 'limited', retryAfterMs: 1_800_000 });
      await expect(limited.defaultBranch(fake.repo)).rejects.toMatchObject({ kind: 'limited', status: 0 });
    });

    it.each([{ status: 500 }, { status: 502 }, 'cut', 'silence'] as const)(
      'with %j after it did what it was asked, is asked what it did',
      async (reply) => {
        const { number } = await open(`fault-${JSON.stringify(reply).replace(/\W/g, '')}`);
        const faulty = fake.connect({ timeoutMs: 1_000 });
        const since = fake.now();
        fake.faults.add({ method: 'POST', path: /\/(notes|comments)$/, isAfter: true, reply });
        const sent = faulty.comment(fake.repo, { type: 'change-request', number }, 'Done <!-- marker -->');
        await expect(sent).rejects.toMatchObject({ kind: 'unknown' });
        const found = await faulty.comments(fake.repo, { type: 'change-request', number }, since);
        expect(found.map(({ body }) => body)).toEqual(['Done <!-- marker -->']);
      },
    );

    it.each([
      ['is far too large', Buffer.alloc(9 * 2 ** 20, ' ')],
      ['is not JSON', '<html>'],
      ['is something else', '"text"'],
      ['is nested without end', '['.repeat(100_000)],
    ])('with an answer that %s, has an unknown outcome', async (_what, body) => {
      fake.faults.add({ path: /^\/api/, reply: { status: 200, body } });
      const asked = host.changeRequest(fake.repo, 1);
      await expect(asked).rejects.toMatchObject({ name: 'HostError', kind: 'unknown' });
    });

    it('with answers that have other fields, has an unknown outcome', async () => {
      fake.faults.add({
        path: /^\/api/,
        times: 100,
        reply: { status: 200, body: '{"iid":"x","number":[]}' },
      });
      for (const call of [
        () => host.changeRequest(fake.repo, 1),
        () => host.threads(fake.repo, 1),
        () => host.reviews(fake.repo, 1),
        () => host.checks(fake.repo, 'abc'),
        () => host.permissionOf(fake.repo, fake.people.maintainer),
        () => host.defaultBranch(fake.repo),
        () => host.changeRequestsFrom(fake.repo, 'x'),
        () => host.comment(fake.repo, subject, 'Done.'),
      ])
        await expect(call()).rejects.toMatchObject({ name: 'HostError', kind: 'unknown' });
    });

    it('right now, does not make a stranger of a person', async () => {
      fake.faults.add({ path: /members|permission/, reply: { status: 502 } });
      const asked = fake.connect().permissionOf(fake.repo, fake.people.maintainer);
      await expect(asked).rejects.toMatchObject({ kind: 'unknown' });
    });

    it('with a name that would leave its place in a path, is not asked', async () => {
      const before = fake.requests.length;
      for (const name of ['..', 'a/../..', 'a', ''])
        await expect(async () => host.defaultBranch(name)).rejects.toMatchObject({ name: 'HostError' });
      const paths = fake.requests.slice(before);
      expect(paths.every((path) => /^GET \/api\/v\d\/(projects|repos)\//.test(path))).toBe(true);
    });
  });

  it('sends deliveries that are signed and read, twice and in reverse order', async () => {
    const received: { id: string; subject: string; isValid: boolean; events: readonly HostEvent[] }[] = [];
    const hook = createServer(async (request, response) => {
      const headers = request.headers as Headers;
      const body = await buffer(request);
      const check = reader.signature(headers, ['another secret', hookSecret]);
      check?.update(body);
      const { events, subject } = reader.read(headers, JSON.parse(body.toString()));
      const { id } = reader.identify(headers, '');
      received.push({ id, subject, isValid: check?.isValid() ?? false, events });
      response.writeHead(202).end();
    });
    hook.listen(0, '127.0.0.1');
    await once(hook, 'listening');
    await fake.deliverTo(`http://127.0.0.1:${(hook.address() as AddressInfo).port}`, hookSecret);
    fake.deliveries.copies = 2;
    fake.deliveries.hold();
    const issue = { type: 'issue', number: await fake.addIssue('maintainer', 'Slow', 'Too slow.') } as const;
    await fake.label(issue, 'agent', 'maintainer');
    await fake.assign(issue, 'muster-account', 'maintainer');
    await fake.comment(issue, '@muster-account please', 'reviewer');
    const { number, headSha } = await open('delivered');
    await fake.review(number, {
      by: 'reviewer',
      verdict: 'APPROVED',
      threads: [{ path: 'a.txt', line: 1, body: 'ok' }],
    });
    await fake.setCheck(headSha, { name: 'test', state: 'FAILED' });
    fake.deliveries.release({ isReversed: true });
    await fake.deliveries.idle();
    fake.deliveries.to(undefined);
    fake.deliveries.copies = 1;
    hook.close();
    expect(received.every(({ isValid }) => isValid)).toBe(true);
    const ids = received.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length / 2);
    const commit = `${fake.repo}@${headSha.slice(0, 10)}`;
    const mark = fake.type === 'gitlab' ? '!' : '#';
    const subjects = [`${fake.repo}#${issue.number}`, `${fake.repo}${mark}${number}`, commit];
    expect(new Set(received.map(({ subject }) => subject))).toEqual(new Set(subjects));
    const events = received.flatMap((delivery) => delivery.events);
    const triggers = events.flatMap((event) =>
      event.type === 'trigger' ? event.causes.map(({ by, value }) => `${by} ${value}`) : [],
    );
    expect(new Set(triggers)).toEqual(new Set(['label agent', 'assigned muster-account', 'mention ']));
    expect(events).toContainEqual({ type: 'checks', repo: fake.repo, sha: headSha });
    expect(events).toContainEqual({ type: 'change-request', repo: fake.repo, number });
    expect(events.find((event) => event.type === 'trigger')).toMatchObject({
      ...{ title: 'Slow', body: 'Too slow.', subject: issue },
    });
  });
});
