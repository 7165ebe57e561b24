import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { githubDeliveries } from '../../packages/service/src/codehost/github/deliveries.ts';
import type { HostEvent } from '../../packages/service/src/codehost/host.ts';
import type { Headers } from '../../packages/service/src/work/host-error.ts';
import { eventually } from '../support/async.ts';
import { FakeGithub } from './github.ts';

let github: FakeGithub;
let number: number;
const secret = 'the secret of the webhook';

beforeAll(async () => {
  github = await FakeGithub.start();
  github.remote.commit('work', { 'a.txt': 'a\n' }, 'main');
  const request = { branch: 'work', base: 'main', title: 'Work', body: '', isDraft: false };
  ({ number } = await github.connect().openChangeRequest(github.repo, request));
});

afterEach(() => github.faults.clear());

afterAll(() => github.stop());

const subject = () => ({ type: 'change-request', number }) as const;

const bodies = async (): Promise<string[]> => (await github.comments(subject())).map(({ body }) => body);

describe('GitHub', () => {
  it('that fails after it has done what it was asked is asked what it did', async () => {
    for (const reply of [{ status: 500 }, { status: 502 }, 'cut', 'silence'] as const) {
      const since = new Date(Date.now() - 1_000).toISOString();
      const marker = `<!-- marker ${JSON.stringify(reply)} -->`;
      github.faults.add({ method: 'POST', path: /\/comments$/, isAfter: true, reply });
      const posting = github.connect({ as: 'token', ...(reply === 'silence' && { timeoutMs: 2_000 }) });
      const posted = posting.comment(github.repo, subject(), `Done. ${marker}`);
      await expect(posted).rejects.toMatchObject({ kind: 'unknown' });
      await eventually(async () => {
        const found = await github.connect().comments(github.repo, subject(), since);
        expect(found.filter(({ body }) => body.includes(marker))).toHaveLength(1);
      });
    }
  });

  it('that fails before it has done anything did nothing', async () => {
    github.faults.add({ method: 'POST', path: /\/comments$/, reply: { status: 502 } });
    await expect(github.connect().comment(github.repo, subject(), 'Lost.')).rejects.toMatchObject({
      kind: 'unknown',
    });
    expect(await bodies()).not.toContain('Lost.');
  });

  it('that refuses to show check runs shows the other checks', async () => {
    const host = github.connect();
    const { headSha } = await host.changeRequest(github.repo, number);
    await github.setCheck(headSha, { name: 'test', state: 'PASSED' });
    expect((await host.checks(github.repo, headSha)).map(({ name }) => name)).toEqual(['test']);
    const body = '{"message": "Resource not accessible by personal access token"}';
    github.faults.add({ path: /\/check-runs/, reply: { status: 403, body } });
    expect(await host.checks(github.repo, headSha)).toEqual([]);
    github.faults.add({ path: /\/check-runs/, reply: { status: 404 } });
    await expect(host.checks(github.repo, headSha)).rejects.toMatchObject({ status: 404 });
  });

  it('that limits is left alone for the time that it says', async () => {
    const host = github.connect();
    github.faults.add({ path: /\/pulls\//, reply: { status: 429, headers: { 'retry-after': '1800' } } });
    await expect(host.changeRequest(github.repo, number)).rejects.toMatchObject({
      kind: 'limited',
      status: 429,
      retryAfterMs: 1_800_000,
    });
    await expect(host.defaultBranch(github.repo)).rejects.toMatchObject({ kind: 'limited', status: 0 });
  });

  it('that reports a secondary limit only in its text limits', async () => {
    const body = JSON.stringify({
      message: 'You have exceeded a secondary rate limit. Please wait a few minutes.',
    });
    github.faults.add({ method: 'POST', path: /\/comments$/, reply: { status: 403, body } });
    await expect(github.connect().comment(github.repo, subject(), 'Too fast.')).rejects.toMatchObject({
      kind: 'limited',
      retryAfterMs: 60_000,
    });
  });

  it('that limits in GraphQL limits', async () => {
    const body = JSON.stringify({ errors: [{ type: 'RATE_LIMITED', message: 'API rate limit exceeded' }] });
    github.faults.add({ path: /graphql/, reply: { status: 200, body } });
    await expect(github.connect().threads(github.repo, number)).rejects.toMatchObject({ kind: 'limited' });
  });

  it('that limits in GraphQL is not called before the limit is reset', async () => {
    const body = JSON.stringify({ errors: [{ type: 'RATE_LIMITED', message: 'API rate limit exceeded' }] });
    const headers = { 'x-ratelimit-reset': String(Math.floor(Date.now() / 1000) + 1800) };
    const host = github.connect();
    github.faults.add({ path: /graphql/, reply: { status: 200, headers, body } });
    const refused = await host.threads(github.repo, number).catch((error: unknown) => error);
    expect(refused).toMatchObject({ kind: 'limited' });
    expect((refused as { retryAfterMs: number }).retryAfterMs).toBeGreaterThan(1_700_000);
    const before = github.server.requests.length;
    await expect(host.threads(github.repo, number)).rejects.toMatchObject({ kind: 'limited', status: 0 });
    await expect(host.defaultBranch(github.repo)).rejects.toMatchObject({ kind: 'limited', status: 0 });
    expect(github.server.requests).toHaveLength(before);
  });

  it('that times out in GraphQL has an unknown outcome', async () => {
    const body = JSON.stringify({
      data: null,
      errors: [{ message: 'Something went wrong while executing your query.' }],
    });
    github.faults.add({ path: /graphql/, reply: { status: 200, body } });
    await expect(github.connect().threads(github.repo, number)).rejects.toMatchObject({ kind: 'unknown' });
  });

  it('that has no end of pages without threads in GraphQL is asked once', async () => {
    const pageInfo = { hasNextPage: true, endCursor: 'x' };
    const repository = { pullRequest: { reviewThreads: { pageInfo, nodes: [] } } };
    const body = JSON.stringify({ data: { repository } });
    github.faults.add({ path: /graphql/, times: 10_000, reply: { status: 200, body } });
    const before = github.faults.happened;
    expect(await github.connect().threads(github.repo, number)).toEqual(expect.any(Array));
    expect(github.faults.happened - before).toBe(1);
  });

  it('that refuses is not asked again', async () => {
    const host = github.connect({ as: 'token' });
    for (const status of [401, 403, 404, 422]) {
      github.faults.add({ method: 'POST', path: /\/comments$/, times: 2, reply: { status } });
      await expect(host.comment(github.repo, subject(), 'No.')).rejects.toMatchObject({
        kind: 'refused',
        status,
      });
      github.faults.clear();
    }
  });

  it('that does not know what a person may do right now does not make a stranger of them', async () => {
    github.faults.add({ path: /\/permission/, reply: { status: 502 } });
    const asked = github.connect().permissionOf(github.repo, github.people.maintainer);
    await expect(asked).rejects.toMatchObject({ kind: 'unknown' });
  });

  it('that redirects does not get the credential at another address', async () => {
    let requests = 0;
    const other = await listen(() => {
      requests += 1;
    });
    github.faults.add({ path: /\/pulls\//, reply: { status: 301, headers: { location: other.url } } });
    await expect(github.connect().changeRequest(github.repo, number)).rejects.toMatchObject({
      kind: 'refused',
      status: 301,
    });
    await other.stop();
    expect(requests).toBe(0);
  });
});

describe('deliveries', () => {
  interface Received {
    readonly id: string;
    readonly event: string;
    readonly isValid: boolean;
    readonly events: readonly HostEvent[];
  }

  it('of what people do are signed and read; twice, and in reverse order', async () => {
    const received: Received[] = [];
    const hook = await listen((headers, body) => {
      const check = githubDeliveries.signature(headers, [secret]);
      check?.update(body);
      const { event, events } = githubDeliveries.read(headers, JSON.parse(body.toString()));
      const { id } = githubDeliveries.identify(headers, '');
      received.push({ id, event, events, isValid: check?.isValid() ?? false });
    });
    await github.deliverTo(hook.url, secret);
    const expectAll = (...names: string[]): Promise<void> =>
      eventually(() => {
        expect(received.map(({ event }) => event)).toEqual(expect.arrayContaining(names));
      });

    const issue = {
      type: 'issue',
      number: await github.addIssue('maintainer', 'A bug', 'It fails.'),
    } as const;
    await github.label(issue, 'agent', 'maintainer');
    await expectAll('issues.opened', 'issues.labeled');
    expect(received.find(({ event }) => event === 'issues.labeled')?.events).toMatchObject([
      {
        type: 'trigger',
        causes: [{ by: 'label', value: 'agent' }],
        title: 'A bug',
        body: 'It fails.',
        url: `${github.url}/team/project/issues/${issue.number}`,
      },
    ]);

    github.deliveries.copies = 2;
    github.deliveries.hold();
    github.remote.commit('work', { 'a.txt': 'b\n' });
    const [thread = ''] = await github.review(number, {
      ...{ by: 'reviewer', verdict: 'COMMENTED', threads: [{ path: 'a.txt', line: 1, body: 'Why b?' }] },
    });
    await github.replyInThread(number, thread, 'Because @muster said so.', 'maintainer');
    await github.setCheck(github.remote.tip('work'), { name: 'test', state: 'FAILED' });
    const wanted = [
      'pull_request.synchronize',
      'pull_request_review.submitted',
      'pull_request_review_comment.created',
      'check_run.completed',
    ];
    await eventually(() => {
      const held = github.deliveries.sent.map(({ headers }) => headers['x-github-event']);
      for (const name of wanted) expect(held).toContain(name.split('.')[0]);
    });
    github.deliveries.release({ isReversed: true });
    await expectAll(...wanted);
    await github.deliveries.idle();
    expect(received.every(({ isValid }) => isValid)).toBe(true);
    const ids = received.filter(({ event }) => event === 'pull_request.synchronize').map(({ id }) => id);
    expect(ids).toEqual([ids[0], ids[0]]);
    expect(received.find(({ event }) => event === 'check_run.completed')?.events).toEqual([
      { type: 'checks', repo: github.repo, sha: github.remote.tip('work') },
    ]);
    github.deliveries.to(undefined);
    await hook.stop();
  });
});

async function listen(
  take: (headers: Headers, body: Buffer) => void,
): Promise<{ readonly url: string; readonly stop: () => Promise<unknown> }> {
  const server: Server = createServer(async (request, response) => {
    take(request.headers as Headers, await buffer(request));
    response.writeHead(202).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}
